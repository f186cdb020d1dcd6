import { describe, expect, it } from "vitest";
import { bodyOf, linked, NO_CHANGES, unlinked } from "../../../src/page/flow/run/change";
import { above, newNode, withArgument, withChange } from "../../../src/page/flow/editor/draft";
import { progressOf, secondsOf } from "../../../src/page/flow/progress";
import { parseValue, sourceOf, valueOf, type Source } from "../../../src/page/flow/value";
import { ends, folded, layout, sizeOf, type Edge } from "../../../src/part/picture/graph-shape";
import { ticks } from "../../../src/part/picture/timeline-shape";

describe("an argument of a node", () => {
  it("may be written as plain text where text is wanted, and as JSON elsewhere", () => {
    expect(parseValue("7", "str")).toBe("7");
    expect(parseValue("7", "int")).toBe(7);
    expect(parseValue("word", "any")).toBe("word");
    expect(parseValue("{oops", "any")).toBeUndefined();
    expect(parseValue("word", "int")).toBeUndefined();
  });

  it("is read as it was written, whatever it stands for", () => {
    const sources: readonly Source[] = [
      { from: "none" },
      { from: "value", text: "7" },
      { from: "argument", name: "day" },
      { from: "result", node: "load", path: "rows.0.id" },
      { from: "result", node: "load", path: "" },
    ];
    for (const source of sources) expect(sourceOf(valueOf(source, "int"), "int")).toEqual(source);
    expect(valueOf({ from: "result", node: "load", path: "rows.0" }, "int")).toEqual({
      $result: "load",
      path: ["rows", 0],
    });
  });

  it("takes the place that it had, and goes when it is left out", () => {
    const text = withArgument('{"a": 1, "b": 2}', "a", 3);
    expect(JSON.parse(text)).toEqual({ a: 3, b: 2 });
    expect(Object.keys(JSON.parse(text) as object)).toEqual(["a", "b"]);
    expect(JSON.parse(withArgument(text, "a", undefined))).toEqual({ b: 2 });
  });
});

describe("a node that is drawn", () => {
  it("is not named like what is inside a nested flow", () => {
    expect(newNode([], "odd/name").name).toBe("odd-name");
  });

  it("may be given the results of all above it, and of nothing else", () => {
    const edges: readonly Edge[] = [
      ["a", "b"],
      ["b", "c"],
      ["x", "c"],
      ["c", "d"],
    ];
    expect(above(edges, "c")).toEqual(["a", "b", "x"]);
    expect(above(edges, "a")).toEqual([]);
  });

  it("keeps giving its result when it gets another name", () => {
    const use = { ...newNode([], "use"), kwargs: '{"rows": [{"$result": "load"}]}' };
    const draft = { nodes: [newNode([], "load"), use], edges: [] };
    const renamed = withChange(draft, "load", { name: "fetch" });
    expect(JSON.parse(renamed.nodes[1]?.kwargs ?? "")).toEqual({ rows: [{ $result: "fetch" }] });
  });
});

describe("changes to a run", () => {
  const there: readonly Edge[] = [["a", "b"]];

  it("forget what was drawn and then removed, and what was removed and then drawn", () => {
    const drawn = linked(NO_CHANGES, there, ["b", "c"]);
    expect(drawn.link).toEqual([["b", "c"]]);
    expect(unlinked(drawn, ["b", "c"])).toEqual(NO_CHANGES);
    const removed = unlinked(NO_CHANGES, ["a", "b"]);
    expect(removed.unlink).toEqual([["a", "b"]]);
    expect(linked(removed, there, ["a", "b"])).toEqual(NO_CHANGES);
  });

  it("have no edge that is there already", () => {
    expect(linked(NO_CHANGES, there, ["a", "b"])).toBe(NO_CHANGES);
  });

  it("say of a new node what it comes after, and link only what was there", () => {
    const node = { ...newNode([], "mail"), kwargs: '{"to": "ada"}', when: " a.result > 0 " };
    const body = bodyOf({
      add: [node],
      link: [
        ["a", "mail"],
        ["mail", "b"],
      ],
      unlink: [],
    });
    expect(body.add?.[0]).toMatchObject({ after: ["a"], kwargs: { to: "ada" } });
    expect(body.add?.[0]?.when).toBe("a.result > 0");
    expect(body.link).toEqual([["mail", "b"]]);
  });
});

describe("a large graph", () => {
  const names = Array.from({ length: 100 }, (_, index) => `n${index}`);

  it("has blocks instead of lines that nobody could see", () => {
    const edges = names.map((name): Edge => ["begin", name]);
    const places = layout(["begin", ...names], edges);
    expect(sizeOf(places).height).toBeLessThan(1_200);
    const spots = new Set([...places.values()].map(({ x, y }) => `${x} ${y}`));
    expect(spots.size).toBe(101);
    const begin = places.get("begin")?.x ?? NaN;
    expect(Math.min(...names.map((name) => places.get(name)?.x ?? NaN))).toBeGreaterThan(begin);
  });

  it("is left alone if it is small", () => {
    const places = new Map([["a", { x: 0, y: 0 }]]);
    expect(folded(places)).toBe(places);
  });

  it("has lines from a nested flow's last nodes only", () => {
    const inside: readonly Edge[] = [
      ["g/a", "g"],
      ["g/b", "g"],
    ];
    expect(ends(inside, [["g/a", "g/b"]])).toEqual([["g/b", "g"]]);
  });
});

describe("how far a run is", () => {
  it("is known while its nodes are counted, and when it has ended", () => {
    expect(progressOf({ nodes: 10, left: 4, status: "running" })).toEqual({
      ended: 6,
      percent: 60,
    });
    expect(progressOf({ nodes: 1_001, left: 7_000, status: "running" }).percent).toBeNull();
    expect(progressOf({ nodes: 1_001, left: 0, status: "failed" }).percent).toBe(100);
  });

  it("tells how long a node ran, or has been running", () => {
    const node = { started_at: "2026-11-16T10:00:00Z", finished_at: null, status: "running" };
    const now = Date.parse("2026-11-16T10:00:07Z");
    expect(secondsOf({ ...node, status: "running" } as const, now)).toBe(7);
    const ended = { ...node, finished_at: "2026-11-16T10:00:02Z", status: "succeeded" } as const;
    expect(secondsOf(ended, now)).toBe(2);
    expect(secondsOf({ started_at: null, finished_at: null, status: "waiting" }, now)).toBeNull();
  });
});

describe("the scale of a line of time", () => {
  it("has round steps, and not too many", () => {
    const found = ticks([{ begin: 0, end: 5_900 }]);
    expect(found.map((tick) => tick.seconds)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(ticks([{ begin: 0, end: 86_400_000 }]).length).toBeLessThanOrEqual(7);
    expect(ticks([])).toEqual([]);
  });
});

import { describe, expect, it } from "vitest";
import {
  above,
  draftOf,
  EMPTY,
  newNode,
  problemsOf,
  specOf,
  withArgument,
  withChange,
  withEdge,
  withNode,
  withoutNode,
} from "../../../src/page/flow/editor/draft";
import { parseValue, sourceOf, valueOf, type Source } from "../../../src/page/flow/value";
import { type Edge } from "../../../src/part/picture/graph-shape";
import { en } from "../../../src/text/en";

describe("a draft", () => {
  const drawn = withEdge(withNode(withNode(EMPTY, "load"), "load"), ["load", "load-2"]);

  it("gives each node its own name", () => {
    expect(drawn.nodes.map((node) => node.name)).toEqual(["load", "load-2"]);
  });

  it("keeps its edges when a node gets another name, and loses them with the node", () => {
    expect(withChange(drawn, "load", { name: "fetch" }).edges).toEqual([["fetch", "load-2"]]);
    expect(withoutNode(drawn, "load").edges).toEqual([]);
  });

  it("has no edge twice, and none from a node to itself", () => {
    expect(withEdge(drawn, ["load", "load-2"]).edges).toHaveLength(1);
    expect(withEdge(drawn, ["load", "load"]).edges).toHaveLength(1);
  });

  it("says what is wrong with it", () => {
    expect(problemsOf(EMPTY, en.flow)).toEqual([en.flow.empty]);
    expect(problemsOf(drawn, en.flow)).toEqual([]);
    const circle = withEdge(drawn, ["load-2", "load"]);
    expect(problemsOf(circle, en.flow)).toEqual([
      "these wait for each other: load → load-2 → load",
    ]);
    const broken = withChange(drawn, "load", { kwargs: "[1]" });
    expect(problemsOf(broken, en.flow)).toEqual([en.flow.badJson("load")]);
  });

  it("is saved as it was read", () => {
    const spec = {
      nodes: [
        {
          name: "a",
          kind: "load",
          args: [1],
          kwargs: { day: { $argument: "day" } },
          trigger: "all_done",
          when: "b.result > 0",
        },
      ],
      edges: [],
    };
    expect(specOf(draftOf(spec))).toEqual(spec);
  });
});

describe("a node of a draft", () => {
  it("is not named like what is inside a nested flow", () => {
    expect(newNode([], "odd/name").name).toBe("odd-name");
  });

  it("can use the results of all nodes above it, and of no others", () => {
    const edges: readonly Edge[] = [
      ["a", "b"],
      ["b", "c"],
      ["x", "c"],
      ["c", "d"],
    ];
    expect(above(edges, "c")).toEqual(["a", "b", "x"]);
    expect(above(edges, "a")).toEqual([]);
  });

  it("keeps giving its result after it is renamed", () => {
    const use = { ...newNode([], "use"), kwargs: '{"rows": [{"$result": "load"}]}' };
    const draft = { nodes: [newNode([], "load"), use], edges: [] };
    const renamed = withChange(draft, "load", { name: "fetch" });
    expect(JSON.parse(renamed.nodes[1]?.kwargs ?? "")).toEqual({ rows: [{ $result: "fetch" }] });
  });
});

describe("an argument of a node", () => {
  it("is typed as plain text where text is wanted, and as JSON elsewhere", () => {
    expect(parseValue("7", "str")).toBe("7");
    expect(parseValue("7", "int")).toBe(7);
    expect(parseValue("word", "any")).toBe("word");
    expect(parseValue("{oops", "any")).toBeUndefined();
    expect(parseValue("word", "int")).toBeUndefined();
  });

  it("is read as it was typed, whatever its source", () => {
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

  it("keeps its place, and is removed when it is not set", () => {
    const text = withArgument('{"a": 1, "b": 2}', "a", 3);
    expect(JSON.parse(text)).toEqual({ a: 3, b: 2 });
    expect(Object.keys(JSON.parse(text) as object)).toEqual(["a", "b"]);
    expect(JSON.parse(withArgument(text, "a", undefined))).toEqual({ b: 2 });
  });
});

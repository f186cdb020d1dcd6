import { describe, expect, it } from "vitest";
import { newNode } from "../../../src/page/flow/editor/draft";
import { progressOf, secondsOf } from "../../../src/page/flow/progress";
import { bodyOf, linked, NO_CHANGES, unlinked } from "../../../src/page/flow/run/change";
import { type Edge } from "../../../src/part/picture/graph-shape";

describe("changes to a run", () => {
  const there: readonly Edge[] = [["a", "b"]];

  it("drop an edge that was drawn and then removed, or removed and then drawn", () => {
    const drawn = linked(NO_CHANGES, there, ["b", "c"]);
    expect(drawn.link).toEqual([["b", "c"]]);
    expect(unlinked(drawn, ["b", "c"])).toEqual(NO_CHANGES);
    const removed = unlinked(NO_CHANGES, ["a", "b"]);
    expect(removed.unlink).toEqual([["a", "b"]]);
    expect(linked(removed, there, ["a", "b"])).toEqual(NO_CHANGES);
  });

  it("have no edge that exists already", () => {
    expect(linked(NO_CHANGES, there, ["a", "b"])).toBe(NO_CHANGES);
  });

  it("give a new node its `after`, and link only existing nodes", () => {
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

describe("the progress of a flow run", () => {
  it("is known while its nodes are counted, and when it has ended", () => {
    expect(progressOf({ nodes: 10, left: 4, status: "running" })).toEqual({
      ended: 6,
      percent: 60,
    });
    expect(progressOf({ nodes: 1_001, left: 7_000, status: "running" }).percent).toBeNull();
    expect(progressOf({ nodes: 1_001, left: 0, status: "failed" }).percent).toBe(100);
  });

  it("says how long a node ran, or has been running", () => {
    const node = { started_at: "2026-11-16T10:00:00Z", finished_at: null, status: "running" };
    const now = Date.parse("2026-11-16T10:00:07Z");
    expect(secondsOf({ ...node, status: "running" } as const, now)).toBe(7);
    const ended = { ...node, finished_at: "2026-11-16T10:00:02Z", status: "succeeded" } as const;
    expect(secondsOf(ended, now)).toBe(2);
    expect(secondsOf({ started_at: null, finished_at: null, status: "waiting" }, now)).toBeNull();
  });
});

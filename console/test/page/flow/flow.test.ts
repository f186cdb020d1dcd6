import { describe, expect, it } from "vitest";
import {
  draftOf,
  EMPTY,
  problemsOf,
  specOf,
  withChange,
  withEdge,
  withNode,
  withoutNode,
} from "../../../src/page/flow/editor/draft";
import { circleIn, layout, NODE_WIDTH } from "../../../src/part/picture/graph-shape";
import { en } from "../../../src/text/en";

describe("the layout of a graph", () => {
  it("puts what waits to the right of what it waits for", () => {
    const places = layout(
      ["b", "a", "c"],
      [
        ["a", "b"],
        ["b", "c"],
      ],
    );
    const x = (name: string) => places.get(name)?.x ?? NaN;
    expect(x("b") - x("a")).toBeGreaterThan(NODE_WIDTH);
    expect(x("c") - x("b")).toBeGreaterThan(NODE_WIDTH);
  });

  it("bears edges to nodes that are not there", () => {
    expect(layout(["a"], [["a", "ghost"]]).size).toBe(1);
  });
});

describe("circles", () => {
  it("are found, and told in order", () => {
    expect(
      circleIn(
        ["a", "b", "c"],
        [
          ["a", "b"],
          ["b", "c"],
          ["c", "b"],
        ],
      ),
    ).toEqual(["b", "c"]);
  });

  it("are not seen where two ways lead to one node", () => {
    expect(
      circleIn(
        ["a", "b", "c", "d"],
        [
          ["a", "b"],
          ["a", "c"],
          ["b", "d"],
          ["c", "d"],
        ],
      ),
    ).toEqual([]);
  });
});

describe("a template that is drawn", () => {
  const drawn = withEdge(withNode(withNode(EMPTY, "load"), "load"), ["load", "load-2"]);

  it("gives nodes names of their own", () => {
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

  it("tells what is wrong with it", () => {
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

import { describe, expect, it } from "vitest";
import {
  circleIn,
  ends,
  folded,
  layout,
  NODE_WIDTH,
  sizeOf,
  type Edge,
} from "../../../src/part/picture/graph-shape";

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

  it("accepts edges to unknown nodes", () => {
    expect(layout(["a"], [["a", "ghost"]]).size).toBe(1);
  });
});

describe("a large graph", () => {
  const names = Array.from({ length: 100 }, (_, index) => `n${index}`);

  it("has blocks instead of very long lines", () => {
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

describe("circles", () => {
  it("are found, in order", () => {
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

  it("are not found where two paths lead to one node", () => {
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

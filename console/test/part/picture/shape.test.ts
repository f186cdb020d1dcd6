import { describe, expect, it } from "vitest";
import { arcPath, pointAt } from "../../../src/part/picture/arc";
import { balancesOf, pathsOf } from "../../../src/part/picture/balance-shape";
import { letterOf } from "../../../src/part/member";
import { niceTop } from "../../../src/part/picture/scale";
import { partAt, stripParts, type StripRange } from "../../../src/part/picture/strip-shape";
import { placed, ticks } from "../../../src/part/picture/timeline-shape";

describe("the ring", () => {
  it("begins at its top and goes clockwise", () => {
    expect(pointAt(0, 256, 100)).toEqual({ x: 0, y: -100 });
    expect(pointAt(64, 256, 100)).toEqual({ x: 100, y: 0 });
  });

  it("draws a quarter as a small arc and three quarters as a large one", () => {
    expect(arcPath({ begin: 0, end: 64 }, 256, 50, 100)).toContain("A100 100 0 0 1 100 0");
    expect(arcPath({ begin: 0, end: 192 }, 256, 50, 100)).toContain("A100 100 0 1 1 -100 0");
  });

  it("draws a whole circle for a single member, and nothing for none", () => {
    expect(arcPath({ begin: 0, end: 256 }, 256, 50, 100).match(/A/g)).toHaveLength(4);
    expect(arcPath({ begin: 8, end: 8 }, 256, 50, 100)).toBe("");
  });

  it("gives members letters", () => {
    expect([0, 25, 26, 27].map(letterOf)).toEqual(["A", "Z", "AA", "AB"]);
  });
});

describe("the strip", () => {
  const range = (id: number, rows: number | null, percent: number | null): StripRange => ({
    id,
    rows_estimate: rows,
    percent,
    status: "running",
  });

  it("gives ranges room by their rows, and fills the width", () => {
    const parts = stripParts([range(1, 300, 0), range(2, 100, 50)], 406);
    expect(parts.map((part) => part.width)).toEqual([303, 103]);
    expect(parts[1]?.x).toBe(303);
    expect(parts[1]?.done).toBe(51.5);
  });

  it("shares the width evenly if no rows were counted", () => {
    const parts = stripParts([range(1, null, null), range(2, null, null)], 100);
    expect(parts.map((part) => part.width)).toEqual([50, 50]);
  });

  it("keeps the smallest range visible, and never exceeds the width", () => {
    const many = Array.from({ length: 1_000 }, (_, id) => range(id, id === 0 ? 1 : 0, 0));
    const parts = stripParts(many, 500);
    const last = parts.at(-1);
    expect((last?.x ?? 0) + (last?.width ?? 0)).toBeCloseTo(500);
    expect(Math.min(...parts.map((part) => part.width))).toBeGreaterThan(0);
  });

  it("is full where a range has ended", () => {
    const [part] = stripParts([{ ...range(1, 10, 97), status: "succeeded" }], 100);
    expect(part?.done).toBe(100);
  });

  it("finds the range at a position", () => {
    const parts = stripParts([range(1, 1, 0), range(2, 1, 0)], 100);
    expect(partAt(parts, 75)?.id).toBe(2);
  });
});

describe("the timeline", () => {
  it("places spans in percent of the whole", () => {
    const places = placed([
      { begin: 0, end: 50 },
      { begin: 50, end: 100 },
    ]);
    expect(places).toEqual([
      { left: 0, width: 50 },
      { left: 50, width: 50 },
    ]);
  });

  it("shows a span of no length, inside the line", () => {
    const [, last] = placed([
      { begin: 0, end: 1_000 },
      { begin: 1_000, end: 1_000 },
    ]);
    expect((last?.left ?? 0) + (last?.width ?? 0)).toBe(100);
    expect(last?.width).toBeGreaterThan(0);
  });
});

describe("axes", () => {
  it.each([
    [0, 2],
    [3, 4],
    [17, 20],
    [45, 60],
    [1_001, 2_000],
  ])("that hold %i end at %i", (value, top) => {
    expect(niceTop(value)).toBe(top);
  });
});

describe("the scale of a timeline", () => {
  it("has round steps, and not too many", () => {
    const found = ticks([{ begin: 0, end: 5_900 }]);
    expect(found.map((tick) => tick.seconds)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(ticks([{ begin: 0, end: 86_400_000 }]).length).toBeLessThanOrEqual(7);
    expect(ticks([])).toEqual([]);
  });
});

describe("the line of a balance", () => {
  it("begins before the first change", () => {
    const steps = [
      { quantity: 10, balance: 10 },
      { quantity: -4, balance: 6 },
    ];
    expect(balancesOf(steps)).toEqual([0, 10, 6]);
    const { line, area } = pathsOf(
      [0, 10, 6],
      (x) => x,
      String as unknown as (y: number) => number,
    );
    expect(line).toBe("M0 0H1V10H2V6H3");
    expect(area).toBe("M0 0H1V10H2V6H3V0H0Z");
  });

  it("is empty without changes", () => {
    expect(balancesOf([])).toEqual([]);
    expect(pathsOf([], Number, Number)).toEqual({ line: "", area: "" });
  });
});

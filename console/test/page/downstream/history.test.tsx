// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, describe, expect, it } from "vitest";
import type { Row } from "../../../src/api/call";
import { HistoryChart } from "../../../src/page/downstream/history";
import {
  areaOf,
  barsOf,
  lineOf,
  nearest,
  spanOf,
  stretchesOf,
} from "../../../src/page/downstream/history-shape";
import { TextProvider } from "../../../src/text";

type Point = Row<"downstreams">["history"][number];

const NOON = Date.parse("2026-11-18T12:00:00Z");
const same = (value: number) => value;
const spots = (...values: (number | null)[]) =>
  values.map((value, index) => ({ at: index * 5_000, value }));

function point(index: number, over: Partial<Point> = {}): Point {
  return {
    at: new Date(NOON + index * 5_000).toISOString(),
    rate: 100 + index,
    concurrency: 10,
    succeeded_per_second: 80,
    overloaded_per_second: 0.5,
    mean_milliseconds: 25,
    ...over,
  };
}

function show(points: readonly Point[]) {
  render(
    <TextProvider>
      <HistoryChart points={points} label="How it adapts" />
    </TextProvider>,
  );
  return screen.getByRole("slider", { name: "How it adapts" });
}

afterEach(() => {
  cleanup();
  localStorage.clear();
});

describe("the lines", () => {
  it("stop where nothing is known, and where the downstream was idle", () => {
    const idle = { at: 60_000, value: 7 };
    expect(stretchesOf([...spots(1, 2, null, 3), idle]).map((part) => part.length)).toEqual([
      2, 1, 1,
    ]);
  });

  it("go from point to point, and a point alone is still seen", () => {
    expect(lineOf(spots(1, 2, null, 3), same, same)).toBe("M0 1L5000 2M15000 3h2");
  });

  it("enclose the room between them", () => {
    expect(areaOf(spots(3, 4), spots(1, 2), same, same)).toBe("M0 3L5000 4L5000 2L0 1Z");
  });

  it("have a bar that is seen for each refusal, however few there were", () => {
    const down = (value: number) => 100 - value;
    expect(barsOf(spots(0, 50, 0.1, null), same, down)).toBe(
      "M4999 100v-50h2.5v50ZM9999 100v-4h2.5v4Z",
    );
  });

  it("have at least a minute of room", () => {
    expect(spanOf([100_000, 105_000])).toEqual({ from: 45_000, to: 105_000 });
    expect(spanOf([0, 600_000])).toEqual({ from: 0, to: 600_000 });
  });

  it("are pointed at by the nearest moment", () => {
    expect([-1, 2_400, 2_600, 99_999].map((at) => nearest([0, 5_000, 10_000], at))).toEqual([
      0, 0, 1, 2,
    ]);
  });
});

describe("the chart", () => {
  it("tells the newest point, and others by the arrow keys", () => {
    const chart = show([point(0), point(1), point(2)]);
    expect(chart.getAttribute("aria-valuetext")).toContain("limit 102/s");
    expect(chart.getAttribute("aria-valuetext")).toContain("80/s served · 0.5/s refused · 25 ms");

    fireEvent.keyDown(chart, { key: "ArrowLeft" });
    expect(chart.getAttribute("aria-valuetext")).toContain("limit 101/s");
    expect(chart.getAttribute("aria-valuenow")).toBe("1");

    fireEvent.keyDown(chart, { key: "Home" });
    fireEvent.keyDown(chart, { key: "ArrowLeft" });
    expect(chart.getAttribute("aria-valuenow")).toBe("0");
  });

  it("draws no limit where there is none", () => {
    show([
      point(0, { rate: null, concurrency: null }),
      point(1, { rate: null, concurrency: null }),
    ]);

    expect(screen.queryByText("rate limit")).toBeNull();
    expect(screen.queryByText("Limit of runs at once")).toBeNull();
    expect(screen.getByText("served")).toBeDefined();
  });

  it("speaks Chinese", () => {
    localStorage.setItem("windlass.language", "zh");
    show([point(0)]);

    expect(screen.getByText("每秒调用")).toBeDefined();
  });
});

import { describe, expect, it } from "vitest";
import { addressOf } from "../../../src/api/call";
import { ageOf, wireFilter } from "../../../src/page/task/filter";

describe("the filter of tasks", () => {
  const now = Date.parse("2026-11-16T12:00:42Z");

  it("reads ages", () => {
    expect(ageOf("10m")).toEqual({ isOlder: false, seconds: 600 });
    expect(ageOf("older-7d")).toEqual({ isOlder: true, seconds: 604_800 });
    expect(ageOf("nonsense").seconds).toBe(0);
  });

  it("counts ages from the full minute", () => {
    expect(wireFilter({ age: "1h" }, now)).toEqual({ created_after: "2026-11-16T11:00:00.000Z" });
    expect(wireFilter({ age: "older-1h" }, now)).toEqual({
      created_before: "2026-11-16T11:00:00.000Z",
    });
  });

  it("becomes a path with its cursor", () => {
    const query = { ...wireFilter({ kind: "pack", status: "failed" }, now), after: "x" };
    expect(addressOf("tasks", { query })).toBe("tasks?kind=pack&status=failed&after=x");
  });
});

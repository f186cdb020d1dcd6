import { describe, expect, it } from "vitest";
import { parseAddress, pathOf, queryOf } from "../src/route/address";
import { ageOf, taskPath, wireFilter } from "../src/page/task-filter";

describe("addresses", () => {
  it("are cut below the mount point", () => {
    const found = parseAddress("/ops/windlass/tasks/7", "?tab=errors", "/ops/windlass/");
    expect(found).toEqual({ parts: ["tasks", "7"], query: { tab: "errors" } });
  });

  it("restore names with any character", () => {
    const name = "a/b ?#%&中";
    const path = "/" + pathOf("sweeps", name);
    expect(parseAddress(path, "", "/").parts).toEqual(["sweeps", name]);
  });

  it("that are broken do not break the page", () => {
    expect(parseAddress("/tasks/%E0%A4", "", "/").parts).toEqual(["tasks", "%E0%A4"]);
  });

  it("leave out what is empty", () => {
    expect(queryOf({ kind: "a&b", status: "", after: null })).toBe("?kind=a%26b");
    expect(queryOf({})).toBe("");
  });
});

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
    expect(taskPath({ kind: "pack", status: "failed", after: "x" }, now)).toBe(
      "tasks?kind=pack&status=failed&after=x",
    );
  });
});

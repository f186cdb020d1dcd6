import { describe, expect, it } from "vitest";
import { parseAddress, pathOf, queryOf } from "../../src/route/address";

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

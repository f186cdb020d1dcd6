import { describe, expect, it } from "vitest";
import { Problem } from "../../../src/api/client";
import { freshId, linesOf, quantityOf, returnOf } from "../../../src/page/ledger/line";
import { isRefusal } from "../../../src/page/ledger/once";
import { refusalText } from "../../../src/page/ledger/part";

describe("quantities", () => {
  it("are whole numbers, from 1 up to the limit", () => {
    expect(["1", " 12 ", "1000000000000"].map((text) => quantityOf(text))).toEqual([1, 12, 1e12]);
    const wrong = ["", "0", "-1", "1.5", "1e3", "x", "1000000000001", "9".repeat(20)];
    expect(wrong.map((text) => quantityOf(text))).toEqual(wrong.map(() => null));
  });

  it("of an adjustment have a sign", () => {
    expect(["-2", "+5", "0"].map((text) => quantityOf(text, true))).toEqual([-2, 5, null]);
  });
});

describe("lines", () => {
  it("leave out empty ones, and are null if one is incomplete", () => {
    const empty = { sku: "", quantity: "" };
    expect(linesOf([{ sku: "bolt", quantity: "3" }, empty])).toEqual([
      { sku: "bolt", quantity: 3 },
    ]);
    expect(linesOf([{ sku: "bolt", quantity: "" }])).toBeNull();
    expect(linesOf([{ sku: "", quantity: "3" }])).toBeNull();
    expect(linesOf([empty])).toBeNull();
  });

  it("of a return are never more than is left", () => {
    const left = [{ sku: "bolt", quantity: 5, returned: 2 }];
    expect(returnOf(left, { bolt: "3" })).toEqual([{ sku: "bolt", quantity: 3 }]);
    expect(returnOf(left, { bolt: "4" })).toBeNull();
    expect(returnOf(left, { bolt: "0" })).toBeNull();
  });
});

describe("ids", () => {
  it("are always new", () => {
    const ids = new Set(Array.from({ length: 100 }, () => freshId("restock")));
    expect(ids.size).toBe(100);
    expect([...ids][0]).toMatch(/^restock-[0-9a-f]{12}$/);
  });

  it("are used up by a refusal, but not by a missing answer", () => {
    const asked = [404, 409, 422, 0, 500, 503].map((status) =>
      isRefusal(new Problem(status, "", "")),
    );
    expect(asked).toEqual([true, true, true, false, false, false]);
  });
});

it("a refusal is shown with its facts", () => {
  expect(refusalText({ error: "OutOfStock", sku: "<b>", wanted: 2 })).toBe(
    "OutOfStock · sku <b> · wanted 2",
  );
});

import { describe, expect, it } from "vitest";
import { fieldOf, localOf, parseSchema, readField, typedOf } from "../../src/data/schema";

const field = (schema: object) => fieldOf(parseSchema(JSON.stringify(schema)));
const read = (schema: object, typed: string, isRequired = true) =>
  readField(field(schema), typed, isRequired);

describe("fields from schemas", () => {
  it("are chosen by the type, and what has none is JSON", () => {
    const kinds = [
      { type: "string" },
      { type: "integer" },
      { type: "boolean" },
      { enum: ["red", 7] },
      { type: "string", format: "date-time" },
      { type: "string", format: "date" },
      { type: "array", items: { type: "string" } },
      { anyOf: [{ type: "integer" }, { type: "null" }] },
      { anyOf: [{ type: "integer" }, { type: "string" }] },
      {},
    ].map((schema) => field(schema).kind);
    expect(kinds).toEqual([
      ...["text", "number", "flag", "choice", "moment", "day", "json", "number", "json", "json"],
    ]);
    expect(field({ enum: ["red", null] })).toMatchObject({
      isNullable: true,
      choices: [{ value: '"red"', label: "red" }],
    });
  });

  it("give the value of what was typed", () => {
    expect(read({ type: "string" }, "7")).toEqual({ value: "7" });
    expect(read({ type: "string" }, "")).toEqual({ value: "" });
    expect(read({ type: "integer" }, " 7 ")).toEqual({ value: 7 });
    expect(read({ type: "boolean" }, "true")).toEqual({ value: true });
    expect(read({ enum: ["red", 7] }, "7")).toEqual({ value: 7 });
    expect(read({}, '{"a": [1]}')).toEqual({ value: { a: [1] } });
    expect(read({ type: "string", format: "date-time" }, "2026-11-01T04:00:00Z")).toEqual({
      value: "2026-11-01T04:00:00.000Z",
    });
    expect(read({ anyOf: [{ type: "integer" }, { type: "null" }] }, "")).toEqual({ value: null });
    expect(read({ type: "integer" }, "", false)).toBe("left out");
  });

  it("refuse what cannot be meant, before it is sent", () => {
    const refused = [
      read({ type: "integer" }, ""),
      read({ type: "integer" }, "seven"),
      read({ type: "integer" }, "1.5"),
      read({ type: "integer" }, "12345678901234567890"),
      read({ type: "integer", minimum: 1 }, "0"),
      read({ type: "string", minLength: 2 }, "a"),
      read({ type: "string", pattern: "^[a-z]+$" }, "A"),
      read({}, "{"),
      read({ type: "string", format: "date-time" }, "soon"),
    ].map((each) => (typeof each === "object" && "refusal" in each ? each.refusal : each));
    expect(refused).toEqual([
      ...["required", "number", "integer", "integer", "range", "length", "pattern", "json"],
      "moment",
    ]);
  });

  it("show a default as it would be typed", () => {
    expect(typedOf(field({ type: "string" }), '"shop"')).toBe("shop");
    expect(typedOf(field({ type: "integer" }), "7")).toBe("7");
    expect(new Date(localOf("2026-11-01T04:00:00Z")).toISOString()).toBe(
      "2026-11-01T04:00:00.000Z",
    );
  });
});

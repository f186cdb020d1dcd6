/** Fields of forms from JSON schemas: which field fits a type, and the value of what was typed. */

export type FieldKind = "text" | "number" | "flag" | "choice" | "moment" | "day" | "json";

export interface FieldType {
  readonly kind: FieldKind;
  /** The JSON of each choice, and how it is shown. */
  readonly choices: readonly { readonly value: string; readonly label: string }[];
  readonly isInteger: boolean;
  /** Whether null is a value. */
  readonly isNullable: boolean;
  readonly min: number | null;
  readonly max: number | null;
  readonly shortest: number;
  readonly longest: number | null;
  readonly pattern: string | null;
}

export type Schema = Readonly<Record<string, unknown>>;

/** Why a value is refused before it is sent; a key of the dictionary's `form.refused`. */
export type Refusal =
  "required" | "number" | "integer" | "range" | "json" | "moment" | "length" | "pattern";

export type Read = { readonly value: unknown } | { readonly refusal: Refusal } | "left out";

const PLAIN: FieldType = {
  kind: "json",
  choices: [],
  isInteger: false,
  isNullable: false,
  min: null,
  max: null,
  shortest: 0,
  longest: null,
  pattern: null,
};

/** The schema in a text of the API; one that cannot be read takes anything. */
export function parseSchema(text: string): Schema {
  try {
    const found = JSON.parse(text) as unknown;
    return typeof found === "object" && found !== null ? (found as Schema) : {};
  } catch {
    return {};
  }
}

/** The field for a type. What has no field of its own is typed as JSON. */
export function fieldOf(schema: Schema): FieldType {
  const any = schema.anyOf;
  if (Array.isArray(any)) {
    const others = (any as Schema[]).filter((each) => each.type !== "null");
    const isNullable = others.length < any.length;
    const [only] = others;
    const found = others.length === 1 && only ? fieldOf(only) : PLAIN;
    return { ...found, isNullable };
  }
  if (Array.isArray(schema.enum)) {
    const isNullable = schema.enum.includes(null);
    const choices = schema.enum
      .filter((each) => each !== null)
      .map((each) => ({ value: JSON.stringify(each), label: String(each) }));
    return { ...PLAIN, kind: "choice", choices, isNullable };
  }
  const number = (name: string) => (typeof schema[name] === "number" ? schema[name] : null);
  switch (schema.type) {
    case "boolean":
      return { ...PLAIN, kind: "flag" };
    case "integer":
    case "number":
      return {
        ...PLAIN,
        kind: "number",
        isInteger: schema.type === "integer",
        min: number("minimum"),
        max: number("maximum"),
      };
    case "string":
      return textOf(schema, number);
    default:
      return PLAIN;
  }
}

function textOf(schema: Schema, number: (name: string) => number | null): FieldType {
  if (schema.format === "date-time") return { ...PLAIN, kind: "moment" };
  if (schema.format === "date") return { ...PLAIN, kind: "day" };
  return {
    ...PLAIN,
    kind: "text",
    shortest: number("minLength") ?? 0,
    longest: number("maxLength"),
    pattern: typeof schema.pattern === "string" ? schema.pattern : null,
  };
}

/** The value of what was typed; an empty field of an argument with a default is left out. */
export function readField(field: FieldType, typed: string, isRequired: boolean): Read {
  const isText = field.kind === "text";
  if (typed === "" && !isRequired) return "left out";
  if (typed.trim() === "" && !isText)
    return field.isNullable ? { value: null } : { refusal: "required" };
  switch (field.kind) {
    case "text":
      return readText(field, typed);
    case "flag":
      return { value: typed === "true" };
    case "number":
      return readNumber(field, typed.trim());
    case "moment": {
      const at = new Date(typed);
      return Number.isNaN(at.getTime()) ? { refusal: "moment" } : { value: at.toISOString() };
    }
    case "day":
      return { value: typed };
    case "choice":
    case "json":
      try {
        return { value: JSON.parse(typed) as unknown };
      } catch {
        return { refusal: "json" };
      }
  }
}

function readText(field: FieldType, typed: string): Read {
  if (typed === "" && field.isNullable) return { value: null };
  const length = [...typed].length;
  if (length < field.shortest || (field.longest !== null && length > field.longest))
    return { refusal: "length" };
  if (field.pattern !== null && !matches(field.pattern, typed)) return { refusal: "pattern" };
  return { value: typed };
}

function readNumber(field: FieldType, typed: string): Read {
  const value = Number(typed);
  if (!Number.isFinite(value)) return { refusal: "number" };
  // Larger ones would be rounded.
  if (field.isInteger && !Number.isSafeInteger(value)) return { refusal: "integer" };
  if ((field.min !== null && value < field.min) || (field.max !== null && value > field.max))
    return { refusal: "range" };
  return { value };
}

function matches(pattern: string, text: string): boolean {
  try {
    return new RegExp(pattern, "u").test(text);
  } catch {
    // Python knows expressions that browsers do not: the server decides.
    return true;
  }
}

/** How a value, as JSON, stands in its field. */
export function typedOf(field: FieldType, json: string): string {
  if (field.kind !== "text" && field.kind !== "moment" && field.kind !== "day") return json;
  try {
    const value = JSON.parse(json) as unknown;
    if (typeof value !== "string") return "";
    return field.kind === "moment" ? localOf(value) : value;
  } catch {
    return json;
  }
}

/** A moment as a field of a date and a time of this zone has it. */
export function localOf(moment: string): string {
  const at = new Date(moment);
  if (Number.isNaN(at.getTime())) return "";
  const local = new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 19);
}

/** Sentences of the server in the user's language: a code, and the values that it needs. */
import type { Format } from "../../format/format";
import type { Dictionary } from "../en";

export interface Said {
  readonly text: string;
  readonly code: string;
  readonly values: Readonly<Record<string, unknown>>;
}

/** The sentence; a text whose code is not known here is shown as it came. */
export function sentence(said: Said, t: Dictionary, f: Format): string {
  if (said.code === "joined" && Array.isArray(said.values.parts))
    return said.values.parts
      .map((each) => shown(each, t, f))
      .join(f.language === "zh" ? "；" : "; ");
  const templates: Readonly<Record<string, string>> = t.said;
  const template = templates[said.code];
  if (template === undefined) return said.text;
  return template.replace(/\{(\w+)\}/g, (whole, name: string) =>
    name in said.values ? shown(said.values[name], t, f) : whole,
  );
}

function shown(value: unknown, t: Dictionary, f: Format): string {
  if (Array.isArray(value)) return f.list(value.map((each) => shown(each, t, f)));
  if (typeof value === "number") return f.number(value);
  if (typeof value === "object" && value !== null) {
    if ("code" in value) return sentence(value as Said, t, f);
    if ("seconds" in value) return f.span(Number(value.seconds));
    if ("moment" in value) return f.near(String(value.moment));
  }
  return String(value);
}

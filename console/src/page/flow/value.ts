/** Arguments of nodes as people type them: a value, the result of another node, or a start argument. */

export type Source =
  | { readonly from: "none" }
  | { readonly from: "value"; readonly text: string }
  | { readonly from: "result"; readonly node: string; readonly path: string }
  | { readonly from: "argument"; readonly name: string };

/** The typed value; text needs no quotation marks. Undefined if it is not JSON. */
export function parseValue(text: string, type: string): unknown {
  if (type === "str") return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // A plain word needs no quotation marks.
    return type === "any" && /^[^\s"[{]/.test(text) ? text : undefined;
  }
}

export function sourceOf(value: unknown, type: string): Source {
  if (value === undefined) return { from: "none" };
  if (typeof value === "object" && value !== null) {
    const { $result: node, $argument: name, path } = value as Record<string, unknown>;
    if (typeof name === "string") return { from: "argument", name };
    if (typeof node === "string") {
      const parts = Array.isArray(path) ? path.map(String) : [];
      return { from: "result", node, path: parts.join(".") };
    }
  }
  const isPlain = typeof value === "string" && (type === "str" || type === "any");
  return { from: "value", text: isPlain ? (value as string) : JSON.stringify(value) };
}

/** The value of a source; undefined if the argument is not set or not JSON. */
export function valueOf(source: Source, type: string): unknown {
  switch (source.from) {
    case "none":
      return undefined;
    case "value":
      return parseValue(source.text, type);
    case "argument":
      return { $argument: source.name };
    case "result": {
      const parts = source.path.split(".").filter(Boolean);
      const path = parts.map((part) => (/^\d+$/.test(part) ? Number(part) : part));
      return path.length > 0 ? { $result: source.node, path } : { $result: source.node };
    }
  }
}

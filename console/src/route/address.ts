/** Addresses: the path below the mount point, cut into parts, and the query. */

export interface Address {
  readonly parts: readonly string[];
  readonly query: Readonly<Record<string, string>>;
}

/** The path that the console is mounted at, with a slash at its end. */
export function mountPath(): string {
  return new URL(document.baseURI).pathname.replace(/[^/]*$/, "");
}

export function parseAddress(pathname: string, search: string, mount: string): Address {
  const below = pathname.startsWith(mount) ? pathname.slice(mount.length) : "";
  const parts = below.split("/").filter(Boolean).map(decodePart);
  return { parts, query: Object.fromEntries(new URLSearchParams(search)) };
}

/** A path below the mount point; names in it may have any character. */
export function pathOf(...parts: readonly (string | number)[]): string {
  return parts.map((part) => encodeURIComponent(String(part))).join("/");
}

/** The choice that a text of the address names, if there is such a choice. */
export function oneOf<T extends string>(
  choices: readonly T[],
  text: string | undefined,
): T | undefined {
  return choices.find((each) => each === text);
}

type Value = string | number | boolean | null | undefined;
export type Query = Readonly<Record<string, Value | readonly string[]>>;

/** A query with its question mark; empty values are left out. */
export function queryOf(given: Query): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) {
    for (const each of Array.isArray(value) ? value : [value])
      if (each !== null && each !== undefined && each !== "") query.append(name, String(each));
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

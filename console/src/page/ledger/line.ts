/** Lines as the user types them, and as the ledger takes them. */

export const MOST_OF_A_SKU = 1e12;
export const MOST_LINES = 100;

export interface TypedLine {
  readonly sku: string;
  readonly quantity: string;
}

export interface Line {
  readonly sku: string;
  readonly quantity: number;
}

/** A line of a deduction, and how much of it has come back. */
export interface TakenLine extends Line {
  readonly returned: number;
}

export function sumOf(lines: readonly Line[]): number {
  return lines.reduce((sum, line) => sum + line.quantity, 0);
}

/** The typed whole number, if the ledger accepts it. */
export function quantityOf(text: string, isSigned = false): number | null {
  if (!/^\s*[+-]?\d{1,13}\s*$/.test(text)) return null;
  const value = Number(text);
  if (value === 0 || Math.abs(value) > MOST_OF_A_SKU) return null;
  return value > 0 || isSigned ? value : null;
}

/** All typed lines without the empty ones; null if one is incomplete. */
export function linesOf(typed: readonly TypedLine[], isSigned = false): readonly Line[] | null {
  const lines: Line[] = [];
  for (const { sku, quantity } of typed) {
    if (sku === "" && quantity.trim() === "") continue;
    const value = quantityOf(quantity, isSigned);
    if (sku === "" || value === null) return null;
    lines.push({ sku, quantity: value });
  }
  return lines.length > 0 ? lines : null;
}

/** The lines to give back; null if nothing, or more than is left, was typed. */
export function returnOf(
  left: readonly TakenLine[],
  typed: Readonly<Record<string, string>>,
): readonly Line[] | null {
  const lines: Line[] = [];
  for (const { sku, quantity, returned } of left) {
    const text = (typed[sku] ?? "").trim();
    if (text === "" || text === "0") continue;
    const value = quantityOf(text);
    if (value === null || value > quantity - returned) return null;
    lines.push({ sku, quantity: value });
  }
  return lines.length > 0 ? lines : null;
}

/** A new id, made once when a dialog opens. */
export function freshId(what: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(6));
  const tail = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${what}-${tail}`;
}

/** The places of a sweep's ranges on its strip: in order, as wide as their number of rows. */

export interface StripRange {
  readonly id: number;
  readonly rows_estimate: number | null;
  readonly percent: number | null;
  readonly status: string;
}

export interface StripPart {
  readonly id: number;
  readonly x: number;
  readonly width: number;
  /** How much of it is done, in pixels from its left side; the breakpoint is there. */
  readonly done: number;
}

export function stripParts(ranges: readonly StripRange[], width: number): readonly StripPart[] {
  const weights = ranges.map(weightOf);
  const sum = weights.reduce((all, each) => all + each, 0);
  // Even the smallest range is visible, as long as there is room for all.
  const least = Math.min(3, width / Math.max(1, ranges.length));
  const free = width - least * ranges.length;
  let x = 0;
  return ranges.map((range, index) => {
    const share = sum > 0 ? (weights[index] ?? 0) / sum : 1 / ranges.length;
    const part = { id: range.id, x, width: least + free * share, done: 0 };
    x += part.width;
    return { ...part, done: part.width * doneShare(range) };
  });
}

/** The range at a place of the strip. */
export function partAt(parts: readonly StripPart[], x: number): StripPart | undefined {
  return parts.find((part) => x >= part.x && x < part.x + part.width);
}

function weightOf(range: StripRange): number {
  return range.rows_estimate === null ? 1 : Math.max(0, range.rows_estimate);
}

function doneShare(range: StripRange): number {
  if (range.status === "succeeded") return 1;
  return Math.min(1, Math.max(0, (range.percent ?? 0) / 100));
}

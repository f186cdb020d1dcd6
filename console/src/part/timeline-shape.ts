/** Where steps are on a line of time. */

export interface Span {
  readonly begin: number;
  readonly end: number;
}

export interface Placed {
  readonly left: number;
  readonly width: number;
}

const LEAST_PERCENT = 0.6;

/** The places of spans on a line that holds them all, in percent of it. */
export function placed(spans: readonly Span[]): readonly Placed[] {
  const begin = Math.min(...spans.map((span) => span.begin));
  const end = Math.max(...spans.map((span) => span.end));
  const whole = Math.max(1, end - begin);
  return spans.map((span) => {
    const width = Math.max(LEAST_PERCENT, (100 * (span.end - span.begin)) / whole);
    const left = Math.min(100 - width, (100 * (span.begin - begin)) / whole);
    return { left, width };
  });
}

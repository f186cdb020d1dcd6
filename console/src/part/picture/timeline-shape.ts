/** The places of steps on a timeline. */

export interface Span {
  readonly begin: number;
  readonly end: number;
}

export interface Placed {
  readonly left: number;
  readonly width: number;
}

const LEAST_PERCENT = 0.6;

/** The places of spans on a line that holds them all, in percent. */
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

export interface Tick {
  readonly left: number;
  readonly seconds: number;
}

const STEPS = [
  0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400,
];
const MOST_TICKS = 6;

/** Round times since the start, and their places in percent. */
export function ticks(spans: readonly Span[]): readonly Tick[] {
  if (spans.length === 0) return [];
  const begin = Math.min(...spans.map((span) => span.begin));
  const end = Math.max(...spans.map((span) => span.end));
  const whole = Math.max(1, end - begin) / 1_000;
  const step = STEPS.find((each) => whole / each <= MOST_TICKS) ?? whole / MOST_TICKS;
  const count = Math.floor(whole / step);
  return Array.from({ length: count + 1 }, (_, index) => ({
    left: (100 * index * step) / whole,
    seconds: index * step,
  })).filter((tick) => tick.left < 96);
}

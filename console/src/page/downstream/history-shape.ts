/** The lines of a downstream that adapts: its points over time, with gaps where it was idle. */

/** Points come every 5 s; without one for longer, the downstream was idle. */
export const GAP_MILLISECONDS = 20_000;
/** A history of a few seconds is not drawn across the whole width. */
const SHORTEST_MILLISECONDS = 60_000;

/** In pixels. */
const LOWEST_BAR = 4;

export interface Spot {
  /** In milliseconds. */
  readonly at: number;
  /** None: not known, or not limited then. */
  readonly value: number | null;
}

type Scale = (value: number) => number;

/** The first and the last moment of the time axis. */
export function spanOf(moments: readonly number[]): { from: number; to: number } {
  const to = moments.at(-1) ?? SHORTEST_MILLISECONDS;
  return { from: Math.min(moments[0] ?? 0, to - SHORTEST_MILLISECONDS), to };
}

/** The stretches in which there is a value, without a gap. */
export function stretchesOf(spots: readonly Spot[]): readonly (readonly Spot[])[] {
  const found: Spot[][] = [];
  let last: Spot | undefined;
  for (const spot of spots) {
    if (spot.value !== null) {
      const isNext = last && last.value !== null && spot.at - last.at <= GAP_MILLISECONDS;
      const stretch = isNext ? found.at(-1) : undefined;
      if (stretch) stretch.push(spot);
      else found.push([spot]);
    }
    last = spot;
  }
  return found;
}

/** A line from point to point; a point alone is a short dash. */
export function lineOf(spots: readonly Spot[], x: Scale, y: Scale): string {
  return stretchesOf(spots)
    .map((stretch) => `M${joined(stretch, x, y)}${stretch.length === 1 ? "h2" : ""}`)
    .join("");
}

/** The room between two lines; both have the same moments. */
export function areaOf(upper: readonly Spot[], lower: readonly Spot[], x: Scale, y: Scale): string {
  const bottoms = stretchesOf(lower);
  return stretchesOf(upper)
    .map((stretch, index) => {
      const back = [...(bottoms[index] ?? [])].reverse();
      return stretch.length > 1 ? `M${joined(stretch, x, y)}L${joined(back, x, y)}Z` : "";
    })
    .join("");
}

/** A bar at each moment with a value above zero. Even the lowest is seen: a few refusals matter. */
export function barsOf(spots: readonly Spot[], x: Scale, y: Scale): string {
  return spots
    .filter(({ value }) => value !== null && value > 0)
    .map(({ at, value }) => {
      const height = Math.max(LOWEST_BAR, y(0) - y(value ?? 0));
      return `M${round(x(at) - 1)} ${round(y(0))}v${round(-height)}h2.5v${round(height)}Z`;
    })
    .join("");
}

/** The point nearest to a place on the time axis. */
export function nearest(moments: readonly number[], at: number): number {
  let found = 0;
  moments.forEach((moment, index) => {
    if (Math.abs(moment - at) < Math.abs((moments[found] ?? 0) - at)) found = index;
  });
  return found;
}

function joined(spots: readonly Spot[], x: Scale, y: Scale): string {
  return spots.map(({ at, value }) => `${round(x(at))} ${round(y(value ?? 0))}`).join("L");
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

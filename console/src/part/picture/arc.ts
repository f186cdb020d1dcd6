/** Arcs of the ring: buckets are places on a circle that begins at its top and goes clockwise. */

export interface Arc {
  readonly begin: number;
  readonly end: number;
}

interface Point {
  readonly x: number;
  readonly y: number;
}

export function pointAt(bucket: number, buckets: number, radius: number): Point {
  const angle = (2 * Math.PI * bucket) / buckets - Math.PI / 2;
  return { x: round(radius * Math.cos(angle)), y: round(radius * Math.sin(angle)) };
}

/** The path of a piece of the ring between two radii, around the origin. */
export function arcPath(arc: Arc, buckets: number, inner: number, outer: number): string {
  const length = arc.end - arc.begin;
  if (length <= 0) return "";
  if (length >= buckets) return `${circle(outer, 1)}${circle(inner, 0)}`;
  const isLarge = length > buckets / 2 ? 1 : 0;
  const [a, b] = [pointAt(arc.begin, buckets, outer), pointAt(arc.end, buckets, outer)];
  const [c, d] = [pointAt(arc.end, buckets, inner), pointAt(arc.begin, buckets, inner)];
  return (
    `M${a.x} ${a.y}A${outer} ${outer} 0 ${isLarge} 1 ${b.x} ${b.y}` +
    `L${c.x} ${c.y}A${inner} ${inner} 0 ${isLarge} 0 ${d.x} ${d.y}Z`
  );
}

export function middleOf(arc: Arc): number {
  return (arc.begin + arc.end) / 2;
}

/** A whole circle, which one arc cannot be, because its ends would meet. */
function circle(radius: number, sweep: 0 | 1): string {
  return (
    `M0 ${-radius}A${radius} ${radius} 0 1 ${sweep} 0 ${radius}` +
    `A${radius} ${radius} 0 1 ${sweep} 0 ${-radius}Z`
  );
}

function round(value: number): number {
  return Math.round(value * 1_000) / 1_000 + 0;
}

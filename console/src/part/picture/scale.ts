/** The top of an axis: a round number, not below `value`, with a round half. */
export function niceTop(value: number): number {
  if (value <= 2) return 2;
  const power = 10 ** Math.floor(Math.log10(value));
  const found = [1, 2, 4, 6, 8, 10].find((step) => step * power >= value) ?? 10;
  return found * power;
}

/** The line of a balance: one step for each change, from the oldest to the newest. */

export interface Step {
  readonly quantity: number;
  readonly balance: number;
}

/** The balance before the first change, and after each. */
export function balancesOf(steps: readonly Step[]): readonly number[] {
  const [first] = steps;
  return first ? [first.balance - first.quantity, ...steps.map((step) => step.balance)] : [];
}

/** The path of the steps, and of the room below them. */
export function pathsOf(
  balances: readonly number[],
  x: (index: number) => number,
  y: (value: number) => number,
): { line: string; area: string } {
  const parts = balances.map((value, index) =>
    index === 0 ? `M${x(0)} ${y(value)}` : `H${x(index)}V${y(value)}`,
  );
  const line = balances.length > 0 ? `${parts.join("")}H${x(balances.length)}` : "";
  const area = line ? `${line}V${y(0)}H${x(0)}Z` : "";
  return { line, area };
}

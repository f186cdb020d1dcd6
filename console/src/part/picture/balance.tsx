/** The balance of a SKU over its last changes: a step line, with a text for screen readers. */
import { useState } from "react";
import type { Row } from "../../api/call";
import { useText } from "../../text";
import { BOTTOM, HEIGHT, TOP, useAxes } from "./axis";
import { balancesOf, pathsOf } from "./balance-shape";

interface BalanceProps {
  /** The oldest first; all of one SKU. */
  entries: readonly Row<"entries">[];
  label: string;
}

export function BalanceChart({ entries, label }: BalanceProps) {
  const { t, f } = useText();
  const [at, setAt] = useState<number | null>(null);
  const steps = entries.map(({ quantity, balance }) => ({ quantity, balance: balance ?? 0 }));
  const balances = balancesOf(steps);
  const { frame, width, left, step, y, grid } = useAxes(Math.max(...balances), balances.length);
  const x = (index: number) => Math.round(left + index * step);
  const { line, area } = pathsOf(balances, x, y);
  const first = entries[0];
  const last = entries.at(-1);
  const shown = at === null ? last : entries[at];
  return (
    <figure className="chart" ref={frame}>
      <svg
        width={width}
        height={HEIGHT}
        role="img"
        aria-label={`${label}: ${balances.map((value) => f.number(value)).join(", ")}`}
        onMouseLeave={() => setAt(null)}
      >
        {grid}
        <path className="balance-area" d={area} />
        <path className="balance-line" d={line} />
        {entries.map((entry, index) => (
          <rect
            key={entry.id}
            className={`hit ${at === index ? "on" : ""}`}
            x={x(index + 1)}
            y={TOP}
            width={step}
            height={HEIGHT - TOP - BOTTOM}
            onMouseEnter={() => setAt(index)}
          />
        ))}
        {first && (
          <text className="axis" x={left} y={HEIGHT - 5}>
            {f.moment(first.created_at)}
          </text>
        )}
        {last && (
          <text className="axis" x={width} y={HEIGHT - 5} textAnchor="end">
            {f.moment(last.created_at)}
          </text>
        )}
      </svg>
      <figcaption style={{ paddingLeft: left }}>
        {shown && (
          <span className="clip">
            <b>{f.number(shown.balance)}</b> · {t.ledger.movements[shown.movement]}{" "}
            {shown.quantity > 0 ? "+" : "−"}
            {f.number(Math.abs(shown.quantity))} · {shown.reference} · {f.moment(shown.created_at)}
          </span>
        )}
      </figcaption>
    </figure>
  );
}

/** How much there was of a SKU, over its last changes: a line of steps, told as text. */
import { useState } from "react";
import type { EntryOut } from "../../api/model";
import { useText } from "../../text";
import { balancesOf, pathsOf } from "./balance-shape";
import { niceTop } from "./scale";
import { useWidth } from "./width";

const HEIGHT = 168;
const BOTTOM = 22;
const TOP = 10;

interface BalanceProps {
  /** The oldest first; all of one SKU. */
  entries: readonly EntryOut[];
  label: string;
}

export function BalanceChart({ entries, label }: BalanceProps) {
  const { t, f } = useText();
  const [at, setAt] = useState<number | null>(null);
  const [frame, width] = useWidth<HTMLElement>();
  const steps = entries.map(({ quantity, balance }) => ({ quantity, balance: balance ?? 0 }));
  const balances = balancesOf(steps);
  const top = niceTop(Math.max(0, ...balances));
  const left = 14 + 7 * f.measure(top).length;
  const step = (width - left) / Math.max(1, balances.length);
  const x = (index: number) => Math.round(left + index * step);
  const y = (value: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
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
        {[0, top / 2, top].map((value) => (
          <g key={value}>
            <line className="grid" x1={left} x2={width} y1={y(value)} y2={y(value)} />
            <text className="axis" x={left - 8} y={y(value) + 4} textAnchor="end">
              {f.measure(value)}
            </text>
          </g>
        ))}
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

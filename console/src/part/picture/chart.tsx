/** Charts of our own: bars over time, and a histogram of ages. Drawn as SVG, told as text. */
import { useState } from "react";
import type { BarOut, MinuteOut } from "../../api/model";
import { useText } from "../../text";
import { niceTop } from "./scale";
import { useWidth } from "./width";

const HEIGHT = 168;
const BOTTOM = 22;
const TOP = 10;

export function MinuteChart({ minutes, label }: { minutes: readonly MinuteOut[]; label: string }) {
  const { t, f } = useText();
  const [at, setAt] = useState<number | null>(null);
  const [frame, width] = useWidth<HTMLElement>();
  const top = niceTop(Math.max(0, ...minutes.map((minute) => minute.done + minute.failed)));
  const left = leftOf(f.measure(top));
  const step = (width - left) / Math.max(1, minutes.length);
  const y = (value: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const shown = at === null ? undefined : minutes[at];
  const sum = (pick: (minute: MinuteOut) => number) =>
    minutes.reduce((all, each) => all + pick(each), 0);
  const told = t.chart.told(
    f.number(sum((each) => each.done)),
    f.number(sum((each) => each.failed)),
  );
  return (
    <figure className="chart" ref={frame}>
      <svg
        width={width}
        height={HEIGHT}
        role="img"
        aria-label={`${label}: ${told}`}
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
        {minutes.map((minute, index) => (
          <g key={minute.at} onMouseEnter={() => setAt(index)}>
            <rect
              className={`hit ${at === index ? "on" : ""}`}
              x={left + index * step}
              y={TOP}
              width={step}
              height={HEIGHT - TOP - BOTTOM}
            />
            <rect
              className="done"
              x={left + index * step + step * 0.14}
              width={step * 0.72}
              y={y(minute.done + minute.failed)}
              height={y(minute.failed) - y(minute.done + minute.failed)}
              rx={1.5}
            />
            <rect
              className="failed"
              x={left + index * step + step * 0.14}
              width={step * 0.72}
              y={y(minute.failed)}
              height={y(0) - y(minute.failed)}
            />
          </g>
        ))}
        {minutes.map((minute, index) =>
          index % 15 === 0 ? (
            <text key={minute.at} className="axis" x={left + index * step} y={HEIGHT - 5}>
              {f.hour(minute.at)}
            </text>
          ) : null,
        )}
      </svg>
      <figcaption style={{ paddingLeft: left }}>
        {shown ? (
          <>
            <b>{f.hour(shown.at)}</b> {t.chart.told(f.number(shown.done), f.number(shown.failed))}
            {shown.average_milliseconds !== null &&
              ` · ${t.chart.average(f.milliseconds(shown.average_milliseconds))}`}
          </>
        ) : (
          <>
            <i className="key done" /> {t.chart.done} <i className="key failed" /> {t.chart.failed}
          </>
        )}
      </figcaption>
    </figure>
  );
}

/** Room for the numbers of an axis. */
function leftOf(longest: string): number {
  return 14 + 7 * longest.length;
}

interface AgeProps {
  bars: readonly BarOut[];
  promise: number;
  label: string;
}

/** How old the items are, with the age that none should pass. */
export function AgeChart({ bars, promise, label }: AgeProps) {
  const { t, f } = useText();
  const [frame, width] = useWidth<HTMLElement>();
  const top = niceTop(Math.max(0, ...bars.map((bar) => bar.count)));
  const left = leftOf(f.measure(top));
  const step = (width - left) / Math.max(1, bars.length);
  const y = (value: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const late = bars.findIndex((bar) => bar.is_late);
  const line = left + (late < 0 ? bars.length : late) * step;
  const every = Math.max(1, Math.ceil(bars.length / 8));
  return (
    <figure className="chart" ref={frame}>
      <svg width={width} height={HEIGHT} role="img" aria-label={label}>
        {[0, top / 2, top].map((value) => (
          <g key={value}>
            <line className="grid" x1={left} x2={width} y1={y(value)} y2={y(value)} />
            <text className="axis" x={left - 8} y={y(value) + 4} textAnchor="end">
              {f.measure(value)}
            </text>
          </g>
        ))}
        {bars.map((bar, index) => (
          <rect
            key={bar.from_seconds}
            className={bar.is_late ? "failed" : "done"}
            x={left + index * step + step * 0.08}
            width={step * 0.84}
            y={y(bar.count)}
            height={y(0) - y(bar.count)}
            rx={1.5}
          >
            <title>{titleOf(bar)}</title>
          </rect>
        ))}
        {bars.map((bar, index) =>
          index % every === 0 ? (
            <text key={bar.from_seconds} className="axis" x={left + index * step} y={HEIGHT - 5}>
              {f.span(bar.from_seconds)}
            </text>
          ) : null,
        )}
        <line className="promise" x1={line} x2={line} y1={TOP - 6} y2={HEIGHT - BOTTOM} />
        <text className="promise-text" x={line - 6} y={TOP + 4} textAnchor="end">
          {t.rolling.promise(f.span(promise))}
        </text>
      </svg>
    </figure>
  );

  function titleOf(bar: BarOut): string {
    const to = bar.to_seconds === null ? "∞" : f.span(bar.to_seconds);
    return `${f.span(bar.from_seconds)} – ${to}: ${f.number(bar.count)}`;
  }
}

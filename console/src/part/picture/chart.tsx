/** Charts: bars over time, and a histogram of ages. SVG, with a text for screen readers. */
import { useState } from "react";
import type { Answer } from "../../api/call";
import { useText } from "../../text";
import { BOTTOM, HEIGHT, TOP, useAxes } from "./axis";

type AgeBar = Answer<"rolling/{kind}">["histogram"]["bars"][number];
type Minute = Answer<"overview">["minutes"][number];

export function MinuteChart({ minutes, label }: { minutes: readonly Minute[]; label: string }) {
  const { t, f } = useText();
  const [at, setAt] = useState<number | null>(null);
  const highest = Math.max(...minutes.map((minute) => minute.done + minute.failed));
  const { frame, width, left, step, y, grid } = useAxes(highest, minutes.length);
  const shown = at === null ? undefined : minutes[at];
  const sum = (pick: (minute: Minute) => number) =>
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
        {grid}
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

interface AgeProps {
  bars: readonly AgeBar[];
  promise: number;
  label: string;
}

/** The ages of the items, and the age that no item should pass. */
export function AgeChart({ bars, promise, label }: AgeProps) {
  const { t, f } = useText();
  const highest = Math.max(...bars.map((bar) => bar.count));
  const { frame, width, left, step, y, grid } = useAxes(highest, bars.length);
  const late = bars.findIndex((bar) => bar.is_late);
  const line = left + (late < 0 ? bars.length : late) * step;
  const every = Math.max(1, Math.ceil(bars.length / 8));
  return (
    <figure className="chart" ref={frame}>
      <svg width={width} height={HEIGHT} role="img" aria-label={label}>
        {grid}
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

  function titleOf(bar: AgeBar): string {
    const to = bar.to_seconds === null ? "∞" : f.span(bar.to_seconds);
    return `${f.span(bar.from_seconds)} – ${to}: ${f.number(bar.count)}`;
  }
}

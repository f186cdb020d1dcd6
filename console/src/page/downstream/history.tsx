/** How the limits of a downstream that adapts went, and how it answered. */
import { useState, type KeyboardEvent, type PointerEvent, type ReactNode } from "react";
import { niceTop } from "../../part/picture/scale";
import { useWidth } from "../../part/picture/width";
import { useText } from "../../text";
import type { Downstream } from ".";
import { areaOf, barsOf, lineOf, nearest, spanOf, type Spot } from "./history-shape";

type Point = Downstream["history"][number];

const LEFT = 50;
const RIGHT = 10;
const STEPS: Record<string, number> = {
  ArrowLeft: -1,
  ArrowRight: 1,
  PageUp: -12,
  PageDown: 12,
  Home: -Infinity,
  End: Infinity,
};

interface HistoryProps {
  /** The oldest first, and at least one. */
  points: readonly Point[];
  label: string;
}

export function HistoryChart({ points, label }: HistoryProps) {
  const { t, f } = useText();
  const [frame, width] = useWidth<HTMLElement>();
  const [at, setAt] = useState<string | null>(null);
  const moments = points.map((point) => Date.parse(point.at));
  const { from, to } = spanOf(moments);
  const x = (moment: number) => LEFT + ((moment - from) / (to - from)) * (width - LEFT - RIGHT);
  const found = points.findIndex((point) => point.at === at);
  const index = found < 0 ? points.length - 1 : found;
  const shown = points[index];
  const point = (event: PointerEvent) => {
    const place = event.clientX - event.currentTarget.getBoundingClientRect().left;
    const moment = from + ((place - LEFT) / (width - LEFT - RIGHT)) * (to - from);
    setAt(points[nearest(moments, moment)]?.at ?? null);
  };
  const press = (event: KeyboardEvent) => {
    const step = STEPS[event.key];
    if (step === undefined) return;
    event.preventDefault();
    setAt(points[Math.min(points.length - 1, Math.max(0, index + step))]?.at ?? null);
  };
  const marker = at !== null && shown ? x(Date.parse(shown.at)) : null;
  return (
    <figure className="chart adapt" ref={frame}>
      <div
        className="adapt-plots"
        role="slider"
        tabIndex={0}
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={points.length - 1}
        aria-valuenow={index}
        aria-valuetext={shown && told(shown)}
        onKeyDown={press}
        onPointerMove={point}
        onPointerLeave={() => setAt(null)}
        onBlur={() => setAt(null)}
      >
        <Calls points={points} x={x} width={width} marker={marker} />
        <AtOnce points={points} x={x} width={width} marker={marker} />
        <Latency points={points} x={x} width={width} marker={marker} />
        <Hours from={from} to={to} x={x} width={width} />
      </div>
      <figcaption>
        <Legend hasRate={points.some((each) => each.rate !== null)} />
        {shown && <p className="adapt-told">{told(shown)}</p>}
      </figcaption>
    </figure>
  );

  function told(each: Point): string {
    return [
      f.clock(each.at),
      each.rate === null ? null : t.downstream.limitTold(f.measure(each.rate)),
      each.concurrency === null ? null : t.downstream.most(f.number(each.concurrency)),
      t.downstream.servedTold(f.measure(each.succeeded_per_second)),
      t.downstream.refusedTold(f.measure(each.overloaded_per_second)),
      each.mean_milliseconds === null ? null : f.milliseconds(each.mean_milliseconds),
    ]
      .filter((part) => part !== null)
      .join(" · ");
  }
}

function Legend({ hasRate }: { hasRate: boolean }) {
  const { t } = useText();
  return (
    <span className="adapt-legend">
      {hasRate && (
        <span>
          <i className="line-key" /> {t.downstream.limitNow}
        </span>
      )}
      <span>
        <i className="key done" /> {t.downstream.served}
      </span>
      <span>
        <i className="key failed" /> {t.downstream.refused}
      </span>
    </span>
  );
}

interface PlotProps {
  points: readonly Point[];
  x: (moment: number) => number;
  width: number;
  marker: number | null;
}

function Calls({ points, ...plot }: PlotProps) {
  const { t } = useText();
  const limit = spots(points, (each) => each.rate);
  const served = spots(points, (each) => each.succeeded_per_second);
  const refused = spots(points, (each) => each.overloaded_per_second);
  const zero = spots(points, () => 0);
  return (
    <Plot title={t.downstream.calls} height={132} top={highest(limit, served, refused)} {...plot}>
      {(y) => (
        <>
          <path className="served" d={areaOf(served, zero, plot.x, y)} />
          <path className="served-line" d={lineOf(served, plot.x, y)} />
          <path className="limit" d={lineOf(limit, plot.x, y)} />
          <path className="refused" d={barsOf(refused, plot.x, y)} />
        </>
      )}
    </Plot>
  );
}

function AtOnce({ points, ...plot }: PlotProps) {
  const { t } = useText();
  const limit = spots(points, (each) => each.concurrency);
  if (limit.every((spot) => spot.value === null)) return null;
  return (
    <Plot title={t.downstream.atOnceLimit} height={72} top={highest(limit)} {...plot}>
      {(y) => <path className="limit" d={lineOf(limit, plot.x, y)} />}
    </Plot>
  );
}

function Latency({ points, ...plot }: PlotProps) {
  const { t } = useText();
  const mean = spots(points, (each) => each.mean_milliseconds);
  return (
    <Plot title={t.downstream.latency} height={72} top={highest(mean)} {...plot}>
      {(y) => <path className="latency" d={lineOf(mean, plot.x, y)} />}
    </Plot>
  );
}

interface FrameProps {
  title: string;
  height: number;
  top: number;
  width: number;
  marker: number | null;
  children: (y: (value: number) => number) => ReactNode;
}

/** One of the charts above each other: its title, its grid and its lines. */
function Plot({ title, height, top, width, marker, children }: FrameProps) {
  const { f } = useText();
  const [above, below] = [22, 4];
  const y = (value: number) => above + (height - above - below) * (1 - value / top);
  const values = height > 100 ? [0, top / 2, top] : [0, top];
  return (
    <svg width={width} height={height} aria-hidden>
      <text className="plot-title" x={LEFT} y={12}>
        {title}
      </text>
      {values.map((value) => (
        <g key={value}>
          <line className="grid" x1={LEFT} x2={width - RIGHT} y1={y(value)} y2={y(value)} />
          <text className="axis" x={LEFT - 8} y={y(value) + 4} textAnchor="end">
            {f.measure(value)}
          </text>
        </g>
      ))}
      {children(y)}
      {marker !== null && (
        <line className="marker" x1={marker} x2={marker} y1={above} y2={height - below} />
      )}
    </svg>
  );
}

/** The time of day at both ends and in the middle. */
function Hours({
  from,
  to,
  x,
  width,
}: { from: number; to: number } & Omit<PlotProps, "points" | "marker">) {
  const { f } = useText();
  const ends = [
    { at: from, anchor: "start" },
    { at: (from + to) / 2, anchor: "middle" },
    { at: to, anchor: "end" },
  ] as const;
  return (
    <svg width={width} height={20} aria-hidden>
      {ends.map(({ at, anchor }) => (
        <text key={anchor} className="axis" x={x(at)} y={14} textAnchor={anchor}>
          {f.clock(at)}
        </text>
      ))}
    </svg>
  );
}

function spots(points: readonly Point[], value: (point: Point) => number | null): readonly Spot[] {
  return points.map((point) => ({ at: Date.parse(point.at), value: value(point) }));
}

function highest(...lines: readonly (readonly Spot[])[]): number {
  return niceTop(Math.max(0, ...lines.flat().map((spot) => spot.value ?? 0)));
}

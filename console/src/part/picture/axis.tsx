/** What charts share: a height, a scale from zero to a round number, and the lines of its grid. */
import { useText } from "../../text";
import { niceTop } from "./scale";
import { useWidth } from "./width";

export const HEIGHT = 168;
export const BOTTOM = 22;
export const TOP = 10;

/** Room for `count` columns side by side, none of them higher than `highest`. */
export function useAxes(highest: number, count: number) {
  const { f } = useText();
  const [frame, width] = useWidth<HTMLElement>();
  const top = niceTop(Math.max(0, highest));
  const left = 14 + 7 * f.measure(top).length;
  const step = (width - left) / Math.max(1, count);
  const y = (value: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const grid = [0, top / 2, top].map((value) => (
    <g key={value}>
      <line className="grid" x1={left} x2={width} y1={y(value)} y2={y(value)} />
      <text className="axis" x={left - 8} y={y(value) + 4} textAnchor="end">
        {f.measure(value)}
      </text>
    </g>
  ));
  return { frame, width, left, step, y, grid };
}

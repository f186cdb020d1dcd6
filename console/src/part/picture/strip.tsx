/** The ranges of a sweep as a strip: progress, breakpoints, owners and speed. */
import type { Answer } from "../../api/call";
import { useText } from "../../text";
import { letterOf } from "../member";
import { stripParts } from "./strip-shape";
import { useWidth } from "./width";

type Range = Answer<"sweeps/{kind}">["ranges"][number];

const HEIGHT = 44;
const SPEED = 30;
const GAP = 6;
const ROOM_FOR_LETTER = 18;

interface StripProps {
  ranges: readonly Range[];
  owners: readonly number[];
  selected: number | null;
  onSelect: (id: number | null) => void;
}

export function Strip({ ranges, owners, selected, onSelect }: StripProps) {
  const { t, f } = useText();
  const [frame, width] = useWidth<HTMLDivElement>();
  const parts = stripParts(ranges, width);
  const fastest = Math.max(0, ...ranges.map((range) => range.rate));
  const space = parts.length > width / 6 ? 0 : 1.5;
  return (
    <div className="strip" ref={frame}>
      <svg width={width} height={HEIGHT + GAP + SPEED} role="group" aria-label={t.sweep.strip}>
        {parts.map((part, index) => {
          const range = ranges[index];
          if (!range) return null;
          const wide = Math.max(0.5, part.width - space);
          const owner = range.owner === null ? -1 : owners.indexOf(range.owner);
          const speed = fastest > 0 ? (SPEED * range.rate) / fastest : 0;
          const name = t.sweep.rangeTold(
            keysOf(range),
            f.percent(range.percent),
            f.measure(range.rate),
          );
          return (
            <g
              key={range.id}
              role="button"
              tabIndex={0}
              aria-label={name}
              aria-pressed={selected === range.id}
              className={`range ${range.status} ${range.is_straggler ? "straggler" : ""}`}
              onClick={() => onSelect(selected === range.id ? null : range.id)}
              onKeyDown={(event) => {
                if (event.key !== "Enter" && event.key !== " ") return;
                event.preventDefault();
                onSelect(selected === range.id ? null : range.id);
              }}
            >
              <title>{name}</title>
              <rect className="whole" x={part.x} width={wide} height={HEIGHT} rx={space} />
              <rect
                className="walked"
                x={part.x}
                width={Math.min(wide, part.done)}
                height={HEIGHT}
                rx={space}
              />
              {part.done > 0 && range.status !== "succeeded" && (
                <rect className="breakpoint" x={part.x + part.done - 1} width={2} height={HEIGHT} />
              )}
              {owner >= 0 && wide > ROOM_FOR_LETTER && (
                <text x={part.x + wide / 2} y={HEIGHT / 2 + 4} textAnchor="middle">
                  {letterOf(owner)}
                </text>
              )}
              <rect
                className={`speed member-${Math.max(0, owner) % 8}`}
                x={part.x}
                width={wide}
                y={HEIGHT + GAP + SPEED - speed}
                height={speed}
              />
            </g>
          );
        })}
        <line
          className="grid"
          x1={0}
          x2={width}
          y1={HEIGHT + GAP + SPEED - 0.5}
          y2={HEIGHT + GAP + SPEED - 0.5}
        />
      </svg>
    </div>
  );
}

/** The keys of a range, as people read them. */
export function keysOf(range: Pick<Range, "begin" | "end">): string {
  return `${range.begin ?? "…"} → ${range.end ?? "…"}`;
}

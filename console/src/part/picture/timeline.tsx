/** Things that start and end, one per line, on a common timeline. */
import type { ReactNode } from "react";
import { useText } from "../../text";
import { Icon, type IconName } from "../icon";
import type { Tone } from "../status";
import { placed, ticks } from "./timeline-shape";

export interface Row {
  readonly key: string;
  readonly name: ReactNode;
  readonly begin: number;
  readonly end: number;
  readonly tone: Tone;
  readonly icon: IconName;
  readonly note?: ReactNode;
  readonly more?: ReactNode;
}

interface TimelineProps {
  rows: readonly Row[];
  label: string;
  /** Whether to show the time since the start above it. */
  hasScale?: boolean;
}

export function Timeline({ rows, label, hasScale = false }: TimelineProps) {
  const { f } = useText();
  const places = placed(rows);
  return (
    <>
      {hasScale && (
        <div className="timeline-scale" aria-hidden>
          {ticks(rows).map((tick) => (
            <span key={tick.left} style={{ left: `${tick.left}%` }}>
              {f.span(tick.seconds)}
            </span>
          ))}
        </div>
      )}
      <ol className="timeline" aria-label={label}>
        {rows.map((row, index) => (
          <li key={row.key} className={`tone-${row.tone}`}>
            <span className="timeline-name">
              <Icon name={row.icon} />
              {row.name}
            </span>
            <span className="timeline-line" aria-hidden>
              <span
                style={{
                  left: `${places[index]?.left ?? 0}%`,
                  width: `${places[index]?.width ?? 0}%`,
                }}
              />
            </span>
            <span className="timeline-span">
              {row.note ?? f.span((row.end - row.begin) / 1_000)}
            </span>
            {row.more && <div className="timeline-more">{row.more}</div>}
          </li>
        ))}
      </ol>
    </>
  );
}

/** The two weeks ahead of a window: small beside a kind, and day by day on its page. */
import { useText } from "../../text";
import {
  beginsWeek,
  hoursOf,
  isWeekend,
  isWhole,
  nowPart,
  openParts,
  type Ahead,
  type Day,
} from "./window-shape";

const COLUMN = 6;
const STEP = COLUMN + 2;
const WEEK_GAP = 4;
const HEIGHT = 30;
const BAR = 12;

/** A column for each day, midnight at the top. */
export function WindowStrip({ ahead }: { ahead: Ahead }) {
  const { t } = useText();
  const told = useDayTold();
  let x = -STEP;
  const places = ahead.days.map((day, index) => {
    x += STEP + (index > 0 && beginsWeek(day) ? WEEK_GAP : 0);
    return x;
  });
  const openDays = ahead.days.filter((day) => day.open.length > 0).length;
  const y = nowPart(ahead) * HEIGHT;
  return (
    <svg
      className="window-strip"
      width={x + COLUMN + 3}
      height={HEIGHT + 2}
      viewBox={`-2 -1 ${x + COLUMN + 3} ${HEIGHT + 2}`}
      role="img"
      aria-label={t.switch.aheadTold(openDays, ahead.days.length, ahead.zone)}
    >
      {ahead.days.map((day, index) => (
        <g key={day.date} transform={`translate(${places[index] ?? 0} 0)`}>
          <title>{told(day)}</title>
          <rect className="closed" width={COLUMN} height={HEIGHT} rx={1.5} />
          {openParts(day).map((part) => (
            <rect
              key={part.from}
              className="open"
              width={COLUMN}
              y={part.from * HEIGHT}
              height={Math.max(1, (part.to - part.from) * HEIGHT)}
              rx={1}
            />
          ))}
        </g>
      ))}
      <line className="now" x1={-1.5} x2={COLUMN + 1.5} y1={y} y2={y} />
    </svg>
  );
}

/** A line for each day, with its hours in words. */
export function WindowDays({ ahead }: { ahead: Ahead }) {
  const { t, f } = useText();
  return (
    <div className="window-days">
      <div className="window-axis" aria-hidden="true">
        {[0, 6, 12, 18, 24].map((hour) => (
          <span key={hour}>{hour}</span>
        ))}
      </div>
      <ol aria-label={t.switch.ahead}>
        {ahead.days.map((day, index) => (
          <li
            key={day.date}
            className={`${isWeekend(day) ? "weekend" : ""} ${index > 0 && beginsWeek(day) ? "new-week" : ""}`}
          >
            <span className="day">{index === 0 ? t.switch.today : f.day(day.date)}</span>
            <DayBar day={day} now={index === 0 ? nowPart(ahead) : null} />
            <span className={day.open.length === 0 ? "hours faint" : "hours"}>
              <Hours day={day} />
            </span>
          </li>
        ))}
      </ol>
      <p className="faint">{t.switch.aheadZone(ahead.zone)}</p>
    </div>
  );
}

function DayBar({ day, now }: { day: Day; now: number | null }) {
  return (
    <svg className="window-bar" height={BAR + 6} width="100%" aria-hidden="true">
      <rect className="closed" y={3} width="100%" height={BAR} rx={3} />
      {openParts(day).map((part) => (
        <rect
          key={part.from}
          className="open"
          x={`${part.from * 100}%`}
          width={`${Math.max(0.4, (part.to - part.from) * 100)}%`}
          y={3}
          height={BAR}
          rx={2}
        />
      ))}
      {[25, 50, 75].map((percent) => (
        <line
          key={percent}
          className="hour"
          x1={`${percent}%`}
          x2={`${percent}%`}
          y1={3}
          y2={BAR + 3}
        />
      ))}
      {now !== null && (
        <>
          <line className="now" x1={`${now * 100}%`} x2={`${now * 100}%`} y1={0} y2={BAR + 6} />
          <circle className="now-dot" cx={`${now * 100}%`} cy={3} r={3} />
        </>
      )}
    </svg>
  );
}

function Hours({ day }: { day: Day }) {
  const { t } = useText();
  if (day.open.length === 0) return t.switch.closedDay;
  return isWhole(day) ? t.switch.openDay : hoursOf(day);
}

function useDayTold(): (day: Day) => string {
  const { t, f } = useText();
  return (day) => {
    const hours = isWhole(day) ? t.switch.openDay : hoursOf(day) || t.switch.closedDay;
    return `${f.day(day.date)}: ${hours}`;
  };
}

/** The shape of a window's days ahead: where a day is open, and how that reads. */
import type { Row } from "../../api/call";

export type Ahead = NonNullable<Row<"switches">["ahead"]>;
export type Day = Ahead["days"][number];

const DAY_MINUTES = 1_440;

/** A stretch of a day as parts of it, from 0 to 1. */
export interface OpenPart {
  readonly from: number;
  readonly to: number;
}

export function openParts(day: Day): readonly OpenPart[] {
  return day.open.map(({ begin, end }) => ({ from: begin / DAY_MINUTES, to: end / DAY_MINUTES }));
}

/** Where now is in today, from 0 to 1. */
export function nowPart(ahead: Ahead): number {
  return Math.min(1, Math.max(0, ahead.now / DAY_MINUTES));
}

/** Whether a day is open from midnight to midnight. */
export function isWhole(day: Day): boolean {
  return day.open.some(({ begin, end }) => begin === 0 && end === DAY_MINUTES);
}

/** The hours of a day as people read them: "01:00–07:00, 22:00–24:00". */
export function hoursOf(day: Day): string {
  return day.open.map(({ begin, end }) => `${clock(begin)}–${clock(end)}`).join(", ");
}

export function isWeekend(day: Day): boolean {
  return [0, 6].includes(new Date(`${day.date}T00:00:00Z`).getUTCDay());
}

/** Whether a week begins with this day: weeks have a little room between them. */
export function beginsWeek(day: Day): boolean {
  return new Date(`${day.date}T00:00:00Z`).getUTCDay() === 1;
}

function clock(minutes: number): string {
  const two = (value: number) => value.toString().padStart(2, "0");
  return `${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

/** Which tasks: the filter as the URL has it, and as the API wants it. */
import { queryOf } from "../../route/address";

export type TaskFilter = Readonly<
  Partial<Record<"kind" | "status" | "key" | "age" | "after", string>>
>;

export const STATUSES = [
  "waiting",
  "running",
  "external",
  "blocked",
  "succeeded",
  "failed",
  "cancelled",
] as const;

/** Created within the last span, or before it began. */
export const AGES = ["10m", "1h", "1d", "7d", "older-1h", "older-1d", "older-7d"] as const;

const SECONDS: Readonly<Record<string, number>> = { m: 60, h: 3_600, d: 86_400 };

export interface Age {
  readonly isOlder: boolean;
  readonly seconds: number;
}

export function ageOf(text: string): Age {
  const found = /^(older-)?(\d{1,4})([mhd])$/.exec(text);
  if (!found) return { isOlder: false, seconds: 0 };
  const [, older, count = "0", unit = "m"] = found;
  return { isOlder: older !== undefined, seconds: Number(count) * (SECONDS[unit] ?? 60) };
}

/** What the API calls the filter; ages count from the full minute, so that a page stays one page. */
export function wireFilter(filter: TaskFilter, now = Date.now()): Record<string, string> {
  const wire: Record<string, string> = {};
  if (filter.kind) wire.kind = filter.kind;
  if (filter.status) wire.status = filter.status;
  if (filter.key) wire.key = filter.key;
  const { isOlder, seconds } = ageOf(filter.age ?? "");
  if (seconds > 0) {
    const minute = Math.floor(now / 60_000) * 60_000;
    const moment = new Date(minute - seconds * 1_000).toISOString();
    wire[isOlder ? "created_before" : "created_after"] = moment;
  }
  return wire;
}

export function taskPath(filter: TaskFilter, now = Date.now()): string {
  return `tasks${queryOf({ ...wireFilter(filter, now), after: filter.after })}`;
}

/** The filter of tasks, as it is in the URL and as the API takes it. */
import type { Row } from "../../api/call";
import { oneOf } from "../../route/address";

export type TaskFilter = Readonly<
  Partial<Record<"kind" | "status" | "key" | "age" | "after", string>>
>;

interface WireFilter {
  kind?: string;
  status?: Row<"tasks">["status"];
  key?: string;
  created_after?: string;
  created_before?: string;
}

export const STATUSES = [
  "waiting",
  "running",
  "external",
  "blocked",
  "succeeded",
  "failed",
  "cancelled",
] as const;

/** Created within the last span of time, or before it. */
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

/** The filter as the API takes it; ages count from the full minute, so that a page stays one page. */
export function wireFilter(filter: TaskFilter, now = Date.now()): WireFilter {
  const wire: WireFilter = {};
  const status = oneOf(STATUSES, filter.status);
  if (filter.kind) wire.kind = filter.kind;
  if (status) wire.status = status;
  if (filter.key) wire.key = filter.key;
  const { isOlder, seconds } = ageOf(filter.age ?? "");
  if (seconds > 0) {
    const minute = Math.floor(now / 60_000) * 60_000;
    const moment = new Date(minute - seconds * 1_000).toISOString();
    wire[isOlder ? "created_before" : "created_after"] = moment;
  }
  return wire;
}

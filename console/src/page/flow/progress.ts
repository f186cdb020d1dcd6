/** The progress of a flow run. */
import type { Row } from "../../api/call";
import { toMilliseconds } from "../../format/format";

export type FlowRun = Row<"flows">;
export type FlowNode = Row<"flows/{number}/nodes">;

/** The nodes of a flow run in a list are counted up to this. */
export const MOST_COUNTED = 1_000;
export const FINAL: readonly string[] = ["succeeded", "failed", "cancelled"];

interface Progress {
  readonly ended: number;
  /** Null if it is not known. */
  readonly percent: number | null;
}

export function progressOf(run: Pick<FlowRun, "nodes" | "left" | "status">): Progress {
  const ended = Math.max(0, run.nodes - run.left);
  if (FINAL.includes(run.status)) return { ended, percent: 100 };
  if (run.nodes > MOST_COUNTED) return { ended, percent: null };
  return { ended, percent: (100 * ended) / Math.max(1, run.nodes) };
}

/** How many seconds a node ran, or has been running; null if it has not started. */
export function secondsOf(
  node: Pick<FlowNode, "started_at" | "finished_at" | "status">,
  now: number,
): number | null {
  if (node.started_at === null || node.status === "blocked") return null;
  const end = node.finished_at === null ? now : toMilliseconds(node.finished_at);
  return Math.max(0, end - toMilliseconds(node.started_at)) / 1_000;
}

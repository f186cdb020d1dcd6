/** Retry or cancel all tasks that match a filter: call after call, until none is left. */
import { post } from "../../api/client";
import type { BulkDone } from "../../api/model";
import { useConfirm } from "../../part/dialog";
import { useAction } from "../../part/toast";
import { useText } from "../../text";
import { wireFilter, type TaskFilter } from "./filter";

type Act = "retry" | "cancel";

const ACTS: Readonly<Record<string, Act>> = {
  failed: "retry",
  cancelled: "retry",
  waiting: "cancel",
  running: "cancel",
  external: "cancel",
};

interface Bulk {
  readonly act: Act | null;
  readonly isBusy: boolean;
  readonly start: () => Promise<void>;
}

export function useBulk(filter: TaskFilter): Bulk {
  const { t, f } = useText();
  const confirm = useConfirm();
  const action = useAction();
  const act = ACTS[filter.status ?? ""] ?? null;

  const start = async () => {
    if (act === null) return;
    // What matches is fixed by the moment of the click, not by how long one thinks about it.
    const wire = wireFilter(filter);
    const which = Object.entries(wire).map(([name, value]) => `${name}: ${value}`);
    const said = await confirm({
      title: act === "retry" ? t.task.retryAll : t.task.cancelAll,
      text: t.task.bulkText(which.join(", ")),
      action: act === "retry" ? t.task.retryAll : t.task.cancelAll,
      isDanger: act === "cancel",
      reason: act === "cancel",
    });
    if (said === null) return;
    const body = act === "cancel" ? { ...wire, reason: said } : wire;
    await action.run(
      () => all(act, body),
      (sum) =>
        act === "retry" ? t.task.retriedAll(f.number(sum)) : t.task.cancelledAll(f.number(sum)),
    );
  };

  return { act, isBusy: action.isBusy, start };
}

async function all(act: Act, body: object): Promise<number> {
  let sum = 0;
  let next: string | null = null;
  do {
    const done: BulkDone = await post<BulkDone>(
      `tasks/${act}`,
      next === null ? body : { ...body, next },
    );
    sum += done.changed;
    next = done.next;
  } while (next !== null);
  return sum;
}

/** Retry or cancel all tasks that match a filter: call after call, until none is left. */
import { post } from "../../api/client";
import { useConfirm } from "../../part/dialog";
import { useAction } from "../../part/toast";
import { oneOf } from "../../route/address";
import { useText } from "../../text";
import { wireFilter, type TaskFilter } from "./filter";

const CAN_RETRY = ["failed", "cancelled"] as const;
const CAN_CANCEL = ["waiting", "running", "external"] as const;

interface Bulk {
  readonly act: "retry" | "cancel" | null;
  readonly isBusy: boolean;
  readonly start: () => Promise<void>;
}

export function useBulk(filter: TaskFilter): Bulk {
  const { t, f } = useText();
  const confirm = useConfirm();
  const action = useAction();
  const toRetry = oneOf(CAN_RETRY, filter.status);
  const toCancel = oneOf(CAN_CANCEL, filter.status);

  const start = async () => {
    // The ages count from the click, not from the answer to the question.
    const wire = wireFilter(filter);
    const which = Object.entries(wire).map(([name, value]) => `${name}: ${value}`);
    const words = toRetry ? t.task.retryAll : t.task.cancelAll;
    const reason = await confirm({
      title: words,
      text: t.task.bulkText(which.join(", ")),
      action: words,
      isDanger: toCancel !== undefined,
      reason: toCancel !== undefined,
    });
    if (reason === null) return;
    if (toRetry)
      await action.run(
        () => all((next) => post("tasks/retry", { body: { ...wire, status: toRetry, next } })),
        (sum) => t.task.retriedAll(f.number(sum)),
      );
    if (toCancel)
      await action.run(
        () =>
          all((next) =>
            post("tasks/cancel", { body: { ...wire, status: toCancel, reason, next } }),
          ),
        (sum) => t.task.cancelledAll(f.number(sum)),
      );
  };

  return { act: toRetry ? "retry" : toCancel ? "cancel" : null, isBusy: action.isBusy, start };
}

interface Step {
  readonly changed: number;
  readonly next: string | null;
}

async function all(call: (next: string | null) => Promise<Step>): Promise<number> {
  let sum = 0;
  let next: string | null = null;
  do {
    const done: Step = await call(next);
    sum += done.changed;
    next = done.next;
  } while (next !== null);
  return sum;
}

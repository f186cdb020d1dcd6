/** How far a running task is: a bar if the total is known, the numbers, and what is being done. */
import { useText } from "../../text";
import { Bar } from "../../part/basic";

interface Reached {
  readonly done: number;
  readonly total: number | null;
  readonly note: string | null;
  readonly percent: number | null;
}

export function Progress({ progress, isFull = false }: { progress: Reached; isFull?: boolean }) {
  const { t, f } = useText();
  const { done, total, note, percent } = progress;
  const numbers = total === null ? f.number(done) : t.task.doneOf(f.number(done), f.number(total));
  const shown = percent === null ? numbers : isFull ? numbers : f.percent(percent);
  return (
    <span
      className={`task-progress ${isFull ? "full" : ""}`}
      role={percent === null ? undefined : "progressbar"}
      aria-label={percent === null ? undefined : t.task.progress}
      aria-valuenow={percent === null ? undefined : Math.floor(percent)}
      title={note === null ? numbers : `${numbers} · ${note}`}
    >
      {percent !== null && <Bar percent={percent} />}
      <small>
        {shown}
        {isFull && note !== null && ` · ${note}`}
      </small>
    </span>
  );
}

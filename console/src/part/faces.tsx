/** The faces of everything that is loaded: loading, empty, error and full. */
import type { ReactNode } from "react";
import type { Problem } from "../api/client";
import type { Resource } from "../data/hook";
import { useText } from "../text";
import type { Dictionary } from "../text/en";
import { Button } from "./basic";
import { Icon } from "./icon";

interface FacesProps<T> {
  resource: Resource<T>;
  /** How many grey lines to show while it loads. */
  lines?: number;
  isEmpty?: (data: T) => boolean;
  empty?: ReactNode;
  children: (data: T) => ReactNode;
}

export function Faces<T>({ resource, lines = 6, isEmpty, empty, children }: FacesProps<T>) {
  const { data, problem, isBusy, reload } = resource;
  if (data === undefined) {
    if (problem) return <Trouble problem={problem} onRetry={reload} isBusy={isBusy} />;
    return <Skeleton lines={lines} />;
  }
  return (
    <>
      {problem && <Trouble problem={problem} onRetry={reload} isBusy={isBusy} isStale />}
      {isEmpty?.(data) ? empty : children(data)}
    </>
  );
}

interface TroubleProps {
  problem: Problem;
  onRetry: () => void;
  isBusy: boolean;
  isStale?: boolean;
}

/** What went wrong; a server that does not answer cannot say it itself. */
export function wordsOf(problem: Problem, t: Dictionary): string {
  return problem.status === 0 ? t.common.unreachable : problem.message;
}

/** What happened, and a button to try again. */
export function Trouble({ problem, onRetry, isBusy, isStale = false }: TroubleProps) {
  const { t } = useText();
  return (
    <div className={`trouble ${isStale ? "stale" : ""}`} role="alert">
      <Icon name="warning" />
      <div>
        <strong>{isStale ? t.common.stale : t.common.trouble}</strong>
        <p>{wordsOf(problem, t)}</p>
      </div>
      <Button icon="retry" onClick={onRetry} isBusy={isBusy}>
        {t.common.tryAgain}
      </Button>
    </div>
  );
}

export function Skeleton({ lines = 6 }: { lines?: number }) {
  const { t } = useText();
  return (
    <div className="skeleton" role="status" aria-label={t.common.loading}>
      {Array.from({ length: lines }, (_, index) => (
        <span key={index} />
      ))}
    </div>
  );
}

interface EmptyProps {
  title: string;
  children?: ReactNode;
  action?: ReactNode;
}

/** An empty list: says so, and what to do. */
export function Empty({ title, children, action }: EmptyProps) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children && <p>{children}</p>}
      {action}
    </div>
  );
}

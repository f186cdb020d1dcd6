/** Hooks that read: what a path answers, kept fresh while it is on the screen. */
import { useCallback, useEffect, useState, useSyncExternalStore } from "react";
import type { Problem } from "../api/client";
import { cache, type Topic } from "./cache";

export interface Resource<T> {
  readonly data: T | undefined;
  readonly problem: Problem | undefined;
  readonly isBusy: boolean;
  readonly reload: () => void;
}

/** What `path` answers; read again when a topic changes, and every so many seconds if given. */
export function useLive<T>(path: string, topics: readonly Topic[], seconds = 0): Resource<T> {
  const names = topics.join(" ");
  const subscribe = useCallback(
    (listen: () => void) => cache.subscribe(path, names.split(" ") as Topic[], listen),
    [path, names],
  );
  const snapshot = useSyncExternalStore(subscribe, () => cache.snapshot(path));
  const reload = useCallback(() => void cache.load(path), [path]);

  useEffect(() => {
    if (seconds === 0) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) reload();
    }, seconds * 1_000);
    return () => clearInterval(timer);
  }, [seconds, reload]);

  return {
    data: snapshot.data as T | undefined,
    problem: snapshot.problem,
    isBusy: snapshot.isBusy,
    reload,
  };
}

/** The time of now, which moves on. */
export function useNow(milliseconds = 1_000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds]);
  return now;
}

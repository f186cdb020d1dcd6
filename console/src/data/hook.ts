/** Hooks that load: the answer of a path, kept fresh while it is on the screen. */
import { useCallback, useEffect, useState, useSyncExternalStore } from "react";
import { addressOf, type Answer, type Argument, type Given, type Parts } from "../api/call";
import type { Problem } from "../api/client";
import type { Get } from "../api/path";
import { cache, type Topic } from "./cache";

export interface Resource<T> {
  readonly data: T | undefined;
  readonly problem: Problem | undefined;
  readonly isBusy: boolean;
  readonly reload: () => void;
}

interface Freshness {
  /** Read again when one of these changes. */
  readonly topics?: readonly Topic[];
  /** Read again after this many seconds. */
  readonly seconds?: number;
}

type Live<P extends keyof Get> = Given<Get[P]> & Freshness;

/** What `path` answers, kept fresh. */
export function useLive<P extends keyof Get>(
  path: P,
  ...given: Argument<Live<P>>
): Resource<Answer<P>>;
export function useLive(path: string, given: Parts & Freshness = {}): Resource<unknown> {
  const { topics = [], seconds = 0 } = given;
  const address = addressOf(path, given);
  const names = topics.join(" ");
  const subscribe = useCallback(
    (listen: () => void) => cache.subscribe(address, names.split(" ") as Topic[], listen),
    [address, names],
  );
  const { data, problem, isBusy } = useSyncExternalStore(subscribe, () => cache.snapshot(address));
  const reload = useCallback(() => void cache.load(address), [address]);

  useEffect(() => {
    if (seconds === 0) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) reload();
    }, seconds * 1_000);
    return () => clearInterval(timer);
  }, [seconds, reload]);

  return { data, problem, isBusy, reload };
}

/** The current time; it keeps moving. */
export function useNow(milliseconds = 1_000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds]);
  return now;
}

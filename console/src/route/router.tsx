/** The router: the browser's address is the only state. */
import {
  useCallback,
  useMemo,
  useSyncExternalStore,
  type AnchorHTMLAttributes,
  type MouseEvent,
} from "react";
import { mountPath, parseAddress, queryOf, type Address } from "./address";

const MOVED = "windlass:moved";

/** Called before the console leaves a page; it calls `leave` to go on. */
type Guard = (leave: () => void) => void;

let guard: Guard | null = null;

export function setGuard(now: Guard | null): void {
  guard = now;
}

/** Go to another page; with `isFree` the guard is not called. */
export function navigate(to: string, options: { replace?: boolean; isFree?: boolean } = {}): void {
  if (guard !== null && !options.isFree) {
    guard(() => navigate(to, { ...options, isFree: true }));
    return;
  }
  const url = mountPath() + to.replace(/^\//, "");
  if (options.replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  window.dispatchEvent(new Event(MOVED));
  if (!options.replace) window.scrollTo(0, 0);
}

function subscribe(listen: () => void): () => void {
  window.addEventListener("popstate", listen);
  window.addEventListener(MOVED, listen);
  return () => {
    window.removeEventListener("popstate", listen);
    window.removeEventListener(MOVED, listen);
  };
}

export function useAddress(): Address {
  const href = useSyncExternalStore(subscribe, () => location.pathname + location.search);
  return useMemo(() => {
    const [pathname = "", search = ""] = href.split(/\?(.*)/s);
    return parseAddress(pathname, search, mountPath());
  }, [href]);
}

export type Patch = Readonly<Record<string, string | null>>;

/** The query of the address, and a function that changes some of it. */
export function useQuery(): [Address["query"], (patch: Patch, replace?: boolean) => void] {
  const { query } = useAddress();
  const change = useCallback((patch: Patch, replace = true) => {
    const now = parseAddress(location.pathname, location.search, mountPath());
    const path = location.pathname.slice(mountPath().length);
    navigate(path + queryOf({ ...now.query, ...patch }), { replace });
  }, []);
  return [query, change];
}

type LinkProps = AnchorHTMLAttributes<HTMLAnchorElement> & { to: string };

/** A link inside the console; with Ctrl or the middle button it opens a new tab, as usual. */
export function Link({ to, onClick, ...rest }: LinkProps) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    const isPlain = !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (event.defaultPrevented || event.button !== 0 || !isPlain) return;
    event.preventDefault();
    navigate(to);
  };
  return <a {...rest} href={mountPath() + to} onClick={follow} />;
}

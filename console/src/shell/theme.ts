/** Light or dark: the system's preference, until the user chooses. */
import { useCallback, useSyncExternalStore } from "react";
import { store } from "../data/memory";

export type Theme = "light" | "dark" | "auto";

const CHANGED = "windlass:theme";

function chosen(): Theme {
  const theme = document.documentElement.dataset.theme;
  return theme === "light" || theme === "dark" ? theme : "auto";
}

function subscribe(listen: () => void): () => void {
  window.addEventListener(CHANGED, listen);
  return () => window.removeEventListener(CHANGED, listen);
}

export function useTheme(): [Theme, (theme: Theme) => void] {
  const theme = useSyncExternalStore(subscribe, chosen);
  const choose = useCallback((now: Theme) => {
    if (now === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = now;
    store("theme", now === "auto" ? null : now);
    window.dispatchEvent(new Event(CHANGED));
  }, []);
  return [theme, choose];
}

/** Whether the theme in effect is dark. */
export function isDark(theme: Theme): boolean {
  if (theme !== "auto") return theme === "dark";
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
}

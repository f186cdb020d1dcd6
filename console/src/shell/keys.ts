/** Keys: `g` and a letter leads to a page, `/` to the search field, `?` to the help. */
import { useEffect } from "react";
import { navigate } from "../route/router";

const SECOND_KEY_MILLISECONDS = 1_500;

export function useKeys(letters: ReadonlyMap<string, string>, onHelp: () => void): void {
  useEffect(() => {
    let leaderAt = 0;
    const press = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey) return;
      if (isTyping(event.target)) {
        if (event.key === "Escape") (event.target as HTMLElement).blur();
        return;
      }
      if (document.querySelector("dialog[open]")) return;
      if (Date.now() - leaderAt < SECOND_KEY_MILLISECONDS) {
        leaderAt = 0;
        const path = letters.get(event.key);
        if (path === undefined) return;
        event.preventDefault();
        navigate(path);
      } else if (event.key === "g") {
        leaderAt = Date.now();
      } else if (event.key === "/") {
        event.preventDefault();
        document.querySelector<HTMLElement>("[data-search]")?.focus();
      } else if (event.key === "?") {
        event.preventDefault();
        onHelp();
      }
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [letters, onHelp]);
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName))
  );
}

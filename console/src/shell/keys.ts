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
        if (event.key === "Escape") leave(event);
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

/** Leave a field without clearing it, as browsers would do with a search field. */
function leave(event: KeyboardEvent): void {
  const field = event.target as HTMLElement;
  if (field instanceof HTMLInputElement && field.type === "search") event.preventDefault();
  field.blur();
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName))
  );
}

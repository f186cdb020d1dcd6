/** The user's preferences in this browser; storage may be forbidden. */

export function recall(name: string): string | null {
  try {
    return localStorage.getItem(`windlass.${name}`);
  } catch {
    return null;
  }
}

export function store(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(`windlass.${name}`);
    else localStorage.setItem(`windlass.${name}`, value);
  } catch {
    // Then the preference lasts until the page is closed.
  }
}

/** The id of a dialog: made when it opens, so that a repeated click takes effect once. */
import { useCallback, useState } from "react";
import { Problem } from "../../api/client";
import { freshId } from "./line";

interface Once {
  readonly id: string;
  readonly setId: (id: string) => void;
  /** Do it. A refused id stays refused, so the next try gets a new id, unless the user typed one. */
  readonly tried: <T>(work: () => Promise<T>) => Promise<T>;
}

export function useOnce(what: string): Once {
  const [id, set] = useState(() => freshId(what));
  const [isGiven, setGiven] = useState(false);
  const setId = useCallback((given: string) => {
    set(given);
    setGiven(true);
  }, []);
  const tried = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (cause) {
      if (!isGiven && isRefusal(cause)) set(freshId(what));
      throw cause;
    }
  };
  return { id, setId, tried };
}

/** Whether the ledger refused; without an answer the movement may have happened. */
export function isRefusal(cause: unknown): boolean {
  return cause instanceof Problem && [404, 409, 422].includes(cause.status);
}

/** The id of a dialog: made once when it opens, so that whatever is sent has its effect once. */
import { useCallback, useState } from "react";
import { Problem } from "../../api/client";
import { freshId } from "./line";

interface Once {
  readonly id: string;
  readonly setId: (id: string) => void;
  /** Do it; a refusal is for ever, so that the next try has a new id, unless somebody gave one. */
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

/** Whether the ledger has answered that it cannot be; without an answer it may have been done. */
export function isRefusal(cause: unknown): boolean {
  return cause instanceof Problem && [404, 409, 422].includes(cause.status);
}

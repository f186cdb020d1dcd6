/** Actions that ask first. */
import { useCallback, useMemo } from "react";
import { useConfirm, type Question } from "./dialog";
import { useAction, type Action } from "./toast";

interface Asking extends Action {
  /** Run `work`, with the reason if the question asks for one, unless the user says no. */
  readonly ask: <T>(
    question: Question,
    work: (reason: string) => Promise<T>,
    says: (done: T) => string,
  ) => Promise<T | null>;
}

export function useAsk(): Asking {
  const confirm = useConfirm();
  const action = useAction();
  const { run } = action;
  const ask = useCallback<Asking["ask"]>(
    async (question, work, says) => {
      const reason = await confirm(question);
      return reason === null ? null : run(() => work(reason), says);
    },
    [confirm, run],
  );
  return useMemo(() => ({ ...action, ask }), [action, ask]);
}

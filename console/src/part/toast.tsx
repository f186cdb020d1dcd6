/** Toasts: what an action did, for a few seconds; and the hook that runs actions. */
import {
  createContext,
  useCallback,
  useContext,
  useMemo,
  useRef,
  useState,
  type ReactNode,
} from "react";
import { problemOf } from "../api/client";
import { cache } from "../data/cache";
import { useText } from "../text";
import { wordsOf } from "./faces";
import { Icon } from "./icon";

interface Toast {
  readonly id: number;
  readonly tone: "good" | "bad";
  readonly text: string;
}

type Tell = (tone: Toast["tone"], text: string) => void;

const Context = createContext<Tell | null>(null);
const GOOD_MILLISECONDS = 6_000;
const BAD_MILLISECONDS = 15_000;
const MOST = 4;

export function ToastProvider({ children }: { children: ReactNode }) {
  const { t } = useText();
  const [toasts, setToasts] = useState<readonly Toast[]>([]);
  const number = useRef(0);
  const drop = useCallback((id: number) => {
    setToasts((before) => before.filter((toast) => toast.id !== id));
  }, []);
  const tell = useCallback<Tell>(
    (tone, text) => {
      const id = ++number.current;
      setToasts((before) => [...before, { id, tone, text }].slice(-MOST));
      setTimeout(() => drop(id), tone === "good" ? GOOD_MILLISECONDS : BAD_MILLISECONDS);
    },
    [drop],
  );
  return (
    <Context value={tell}>
      {children}
      <div className="toasts" role="status" aria-live="polite">
        {toasts.map((toast) => (
          <div key={toast.id} className={`toast tone-${toast.tone}`}>
            <Icon name={toast.tone === "good" ? "check" : "warning"} />
            <span>{toast.text}</span>
            <button type="button" aria-label={t.common.close} onClick={() => drop(toast.id)}>
              <Icon name="close" />
            </button>
          </div>
        ))}
      </div>
    </Context>
  );
}

export function useTell(): Tell {
  const tell = useContext(Context);
  if (tell === null) throw new Error("useTell needs a ToastProvider around it");
  return tell;
}

export interface Action {
  readonly isBusy: boolean;
  /** What went wrong the last time, for dialogs, which cover toasts. */
  readonly problem: string;
  /** Do it, say what it did, and reload what is on the screen; null if it failed. */
  readonly run: <T>(work: () => Promise<T>, says: (done: T) => string) => Promise<T | null>;
}

export function useAction(): Action {
  const tell = useTell();
  const { t } = useText();
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const run = useCallback<Action["run"]>(
    async (work, says) => {
      setBusy(true);
      setProblem("");
      try {
        const done = await work();
        tell("good", says(done));
        return done;
      } catch (cause) {
        const words = wordsOf(problemOf(cause), t);
        setProblem(words);
        tell("bad", words);
        return null;
      } finally {
        setBusy(false);
        cache.changed();
      }
    },
    [tell, t],
  );
  return useMemo(() => ({ isBusy, problem, run }), [isBusy, problem, run]);
}

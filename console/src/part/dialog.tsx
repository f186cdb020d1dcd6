/** Dialogs: the browser's own, which keeps the focus inside and closes by Esc. */
import {
  createContext,
  useCallback,
  useContext,
  useEffect,
  useId,
  useRef,
  useState,
  type FormEvent,
  type ReactNode,
} from "react";
import { useText } from "../text";
import { Button } from "./basic";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
}

export function Dialog({ title, onClose, children }: DialogProps) {
  const frame = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const { current } = frame;
    if (current && !current.open) current.showModal();
  }, []);
  return (
    <dialog
      ref={frame}
      aria-labelledby={id}
      onClose={onClose}
      onClick={(event) => event.target === frame.current && onClose()}
    >
      <div className="dialog-body">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

export interface Question {
  readonly title: string;
  readonly text: ReactNode;
  readonly action: string;
  readonly isDanger?: boolean;
  /** Ask for a reason too. */
  readonly reason?: boolean;
}

/** The answer: null is no, and a text is yes, with the reason if one was asked for. */
type Ask = (question: Question) => Promise<string | null>;

const Context = createContext<Ask | null>(null);

export function ConfirmProvider({ children }: { children: ReactNode }) {
  const [open, setOpen] = useState<{ question: Question; answer: (said: string | null) => void }>();
  const ask = useCallback<Ask>(
    (question) =>
      new Promise((answer) => {
        setOpen({ question, answer });
      }),
    [],
  );
  const close = (said: string | null) => {
    open?.answer(said);
    setOpen(undefined);
  };
  return (
    <Context value={ask}>
      {children}
      {open && <Confirm question={open.question} onAnswer={close} />}
    </Context>
  );
}

export function useConfirm(): Ask {
  const ask = useContext(Context);
  if (ask === null) throw new Error("useConfirm needs a ConfirmProvider around it");
  return ask;
}

interface ConfirmProps {
  question: Question;
  onAnswer: (said: string | null) => void;
}

function Confirm({ question, onAnswer }: ConfirmProps) {
  const { t } = useText();
  const [reason, setReason] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onAnswer(reason);
  };
  return (
    <Dialog title={question.title} onClose={() => onAnswer(null)}>
      <form onSubmit={submit}>
        <p>{question.text}</p>
        {question.reason && (
          <label className="field">
            <span>{t.common.reason}</span>
            <input
              autoFocus
              value={reason}
              maxLength={1000}
              placeholder={t.common.reasonHint}
              onChange={(event) => setReason(event.target.value)}
            />
          </label>
        )}
        <div className="dialog-actions">
          <Button onClick={() => onAnswer(null)}>{t.common.keep}</Button>
          <Button
            type="submit"
            look={question.isDanger ? "danger" : "main"}
            autoFocus={!question.reason}
          >
            {question.action}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

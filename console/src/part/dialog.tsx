/** Dialogs: the browser's own, which keeps the focus inside and closes by Esc. */
import {
  createContext,
  useCallback,
  useContext,
  useEffect,
  useId,
  useRef,
  useState,
  type ReactNode,
} from "react";
import { Form, ReasonField } from "./form";

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
    // A field marked `data-first` gets the focus; else the browser chooses.
    current?.querySelector<HTMLElement>("[data-first]")?.focus();
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

/** The answer: null is no; a text is yes, with the reason if there was a field for it. */
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
  const [reason, setReason] = useState("");
  return (
    <Dialog title={question.title} onClose={() => onAnswer(null)}>
      <Form
        action={question.action}
        isDanger={question.isDanger}
        isFirst={!question.reason}
        onSubmit={() => onAnswer(reason)}
        onClose={() => onAnswer(null)}
      >
        <p>{question.text}</p>
        {question.reason && <ReasonField autoFocus value={reason} onText={setReason} />}
      </Form>
    </Dialog>
  );
}

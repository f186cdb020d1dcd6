/** Forms in dialogs: fields with labels, what went wrong, and the buttons below. */
import type { InputHTMLAttributes, ReactNode } from "react";
import { useText } from "../text";
import { Button, Note } from "./basic";
import type { IconName } from "./icon";

interface FormProps {
  /** The word on the button that sends it. */
  action: string;
  icon?: IconName;
  isDanger?: boolean | undefined;
  isBusy?: boolean;
  isReady?: boolean;
  /** Whether the button has the focus at first, because no field has. */
  isFirst?: boolean;
  problem?: string;
  onSubmit: () => void;
  onClose: () => void;
  children: ReactNode;
}

export function Form(props: FormProps) {
  const { t } = useText();
  const { isBusy = false, isReady = true } = props;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        props.onSubmit();
      }}
    >
      {props.children}
      {props.problem && <Note tone="bad">{props.problem}</Note>}
      <div className="dialog-actions">
        <Button onClick={props.onClose}>{t.common.keep}</Button>
        <Button
          type="submit"
          look={props.isDanger ? "danger" : "main"}
          icon={props.icon}
          autoFocus={props.isFirst}
          isBusy={isBusy}
          disabled={isBusy || !isReady}
        >
          {props.action}
        </Button>
      </div>
    </form>
  );
}

interface FieldProps extends Omit<InputHTMLAttributes<HTMLInputElement>, "onChange"> {
  label: ReactNode;
  hint?: string;
  value: string;
  onText: (text: string) => void;
}

export function Field({ label, hint, onText, ...input }: FieldProps) {
  return (
    <label className="field">
      <span>{label}</span>
      <input {...input} onChange={(event) => onText(event.target.value)} />
      {hint && <small>{hint}</small>}
    </label>
  );
}

/** Asks for a reason. */
export function ReasonField({
  value,
  onText,
  autoFocus,
}: Pick<FieldProps, "value" | "onText" | "autoFocus">) {
  const { t } = useText();
  return (
    <Field
      label={t.common.reason}
      autoFocus={autoFocus}
      value={value}
      maxLength={1000}
      placeholder={t.common.reasonHint}
      onText={onText}
    />
  );
}

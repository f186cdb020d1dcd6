/** Goods that came in, and what a count found: the dialog has one id, so a movement happens once. */
import { useState, type FormEvent } from "react";
import { post } from "../../api/client";
import type { ReceiptView } from "../../api/model";
import { Button, Note } from "../../part/basic";
import { Dialog } from "../../part/dialog";
import { useAction } from "../../part/toast";
import { queryOf } from "../../route/address";
import { useText } from "../../text";
import { linesOf, MOST_LINES, type TypedLine } from "./line";
import { useOnce } from "./once";

export type Move = "restock" | "adjust";

interface MoveProps {
  move: Move;
  sku?: string;
  shard: string | undefined;
  onClose: () => void;
}

export function MoveDialog({ move, sku = "", shard, onClose }: MoveProps) {
  const { t, f } = useText();
  const action = useAction();
  const { id, setId, tried } = useOnce(move);
  const [typed, setTyped] = useState<readonly TypedLine[]>([{ sku, quantity: "" }]);
  const [reason, setReason] = useState("");
  const isAdjust = move === "adjust";
  const lines = linesOf(typed, isAdjust);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const path = `ledger/${isAdjust ? "adjustments" : "restocks"}${queryOf({ shard })}`;
    const done = await action.run(
      () => tried(() => post<ReceiptView>(path, isAdjust ? { id, lines, reason } : { id, lines })),
      (made) =>
        isAdjust
          ? t.ledger.adjusted(f.number(made.lines.length))
          : t.ledger.restocked(f.number(made.lines.reduce((sum, line) => sum + line.quantity, 0))),
    );
    if (done) onClose();
  };

  return (
    <Dialog title={isAdjust ? t.ledger.adjustTitle : t.ledger.restockTitle} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <p>{isAdjust ? t.ledger.adjustText : t.ledger.restockText}</p>
        <LineFields lines={typed} isSigned={isAdjust} isSkuGiven={sku !== ""} onChange={setTyped} />
        {isAdjust && <small className="faint">{t.ledger.adjustHint}</small>}
        {isAdjust && (
          <label className="field">
            <span>{t.common.reason}</span>
            <input
              value={reason}
              maxLength={1000}
              placeholder={t.common.reasonHint}
              onChange={(event) => setReason(event.target.value)}
            />
          </label>
        )}
        <IdField id={id} onChange={setId} />
        {action.problem && <Note tone="bad">{action.problem}</Note>}
        <div className="dialog-actions">
          <Button onClick={onClose}>{t.common.keep}</Button>
          <Button
            type="submit"
            look="main"
            isBusy={action.isBusy}
            disabled={lines === null || id === "" || action.isBusy}
          >
            {isAdjust ? t.ledger.adjust : t.ledger.restock}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

export function IdField({ id, onChange }: { id: string; onChange: (id: string) => void }) {
  const { t } = useText();
  return (
    <label className="field">
      <span>{t.ledger.id}</span>
      <input
        className="mono"
        required
        value={id}
        maxLength={255}
        onChange={(event) => onChange(event.target.value)}
      />
      <small>{t.ledger.idHint}</small>
    </label>
  );
}

interface LineFieldsProps {
  lines: readonly TypedLine[];
  isSigned: boolean;
  isSkuGiven: boolean;
  onChange: (lines: readonly TypedLine[]) => void;
}

function LineFields({ lines, isSigned, isSkuGiven, onChange }: LineFieldsProps) {
  const { t } = useText();
  const set = (index: number, patch: Partial<TypedLine>) =>
    onChange(lines.map((line, at) => (at === index ? { ...line, ...patch } : line)));
  return (
    <fieldset className="lines">
      <legend>{t.ledger.lines}</legend>
      {lines.map((line, index) => (
        <div key={index} className="line-row">
          <input
            aria-label={`${t.ledger.sku}, ${t.ledger.line(index + 1)}`}
            placeholder={t.ledger.sku}
            className="mono"
            value={line.sku}
            maxLength={255}
            data-first={(index === 0 && !isSkuGiven) || undefined}
            onChange={(event) => set(index, { sku: event.target.value })}
          />
          <input
            aria-label={`${t.ledger.quantity}, ${t.ledger.line(index + 1)}`}
            placeholder={isSigned ? "+5, -2" : t.ledger.quantity}
            inputMode={isSigned ? "text" : "numeric"}
            value={line.quantity}
            maxLength={14}
            data-first={(index === 0 && isSkuGiven) || undefined}
            onChange={(event) => set(index, { quantity: event.target.value })}
          />
          <Button
            icon="close"
            look="quiet"
            aria-label={`${t.ledger.removeLine}, ${t.ledger.line(index + 1)}`}
            disabled={lines.length === 1}
            onClick={() => onChange(lines.filter((_, at) => at !== index))}
          />
        </div>
      ))}
      <Button
        icon="plus"
        look="quiet"
        disabled={lines.length >= MOST_LINES}
        onClick={() => onChange([...lines, { sku: "", quantity: "" }])}
      >
        {t.ledger.addLine}
      </Button>
    </fieldset>
  );
}

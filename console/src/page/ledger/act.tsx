/** Restocking and adjusting. A dialog has one id, so a movement happens once. */
import { useState } from "react";
import { post } from "../../api/client";
import { Button } from "../../part/basic";
import { Dialog } from "../../part/dialog";
import { Field, Form, ReasonField } from "../../part/form";
import { useAction } from "../../part/toast";
import { useQuery } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import { linesOf, MOST_LINES, sumOf, type TypedLine } from "./line";
import { useOnce } from "./once";

type Move = "restock" | "adjust";

/** The buttons that open the dialogs, for people who may act. */
export function MoveButtons({ sku }: { sku?: string }) {
  const { t } = useText();
  const { canAct } = useSession();
  const [{ shard }] = useQuery();
  const [move, setMove] = useState<Move | null>(null);
  if (!canAct) return null;
  return (
    <>
      <Button icon="settings" onClick={() => setMove("adjust")}>
        {t.ledger.adjust}
      </Button>
      <Button icon="plus" look="main" onClick={() => setMove("restock")}>
        {t.ledger.restock}
      </Button>
      {move && <MoveDialog move={move} sku={sku} shard={shard} onClose={() => setMove(null)} />}
    </>
  );
}

interface MoveProps {
  move: Move;
  sku?: string | undefined;
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

  const submit = async () => {
    if (lines === null) return;
    const query = { shard };
    const send = () =>
      isAdjust
        ? post("ledger/adjustments", { query, body: { id, lines, reason } })
        : post("ledger/restocks", { query, body: { id, lines } });
    const done = await action.run(
      () => tried(send),
      (made) =>
        isAdjust
          ? t.ledger.adjusted(f.number(made.lines.length))
          : t.ledger.restocked(f.number(sumOf(made.lines))),
    );
    if (done) onClose();
  };

  return (
    <Dialog title={isAdjust ? t.ledger.adjustTitle : t.ledger.restockTitle} onClose={onClose}>
      <Form
        action={isAdjust ? t.ledger.adjust : t.ledger.restock}
        isBusy={action.isBusy}
        isReady={lines !== null && id !== ""}
        problem={action.problem}
        onSubmit={() => void submit()}
        onClose={onClose}
      >
        <p>{isAdjust ? t.ledger.adjustText : t.ledger.restockText}</p>
        <LineFields lines={typed} isSigned={isAdjust} isSkuGiven={sku !== ""} onChange={setTyped} />
        {isAdjust && <small className="faint">{t.ledger.adjustHint}</small>}
        {isAdjust && <ReasonField value={reason} onText={setReason} />}
        <IdField id={id} onChange={setId} />
      </Form>
    </Dialog>
  );
}

export function IdField({ id, onChange }: { id: string; onChange: (id: string) => void }) {
  const { t } = useText();
  return (
    <Field
      label={t.ledger.id}
      hint={t.ledger.idHint}
      className="mono"
      required
      value={id}
      maxLength={255}
      onText={onChange}
    />
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

/** A part of a deduction comes back: how much of each line, under one id per dialog. */
import { useState, type FormEvent } from "react";
import { post } from "../../api/client";
import type { DeductionLineView, ReturnView } from "../../api/model";
import { Button, Note } from "../../part/basic";
import { Dialog } from "../../part/dialog";
import { useAction } from "../../part/toast";
import { pathOf, queryOf } from "../../route/address";
import { useText } from "../../text";
import { IdField } from "./act";
import { returnOf } from "./line";
import { useOnce } from "./once";

interface GiveBackProps {
  id: string;
  lines: readonly DeductionLineView[];
  shard: string | undefined;
  onClose: () => void;
}

export function GiveBackDialog({ id, lines, shard, onClose }: GiveBackProps) {
  const { t, f } = useText();
  const action = useAction();
  const { id: returnId, setId: setReturnId, tried } = useOnce("return");
  const [typed, setTyped] = useState<Readonly<Record<string, string>>>({});
  const wanted = returnOf(lines, typed);
  const all = () =>
    setTyped(
      Object.fromEntries(lines.map((line) => [line.sku, `${line.quantity - line.returned}`])),
    );

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const path = pathOf("ledger", "deductions", id, "returns") + queryOf({ shard });
    const done = await action.run(
      () => tried(() => post<ReturnView>(path, { id: returnId, lines: wanted })),
      (made) =>
        t.ledger.gaveBack(f.number(made.lines.reduce((sum, line) => sum + line.quantity, 0)), id),
    );
    if (done) onClose();
  };

  return (
    <Dialog title={t.ledger.giveBackTitle(id)} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <p>{t.ledger.giveBackText}</p>
        <fieldset className="lines">
          <legend>{t.ledger.lines}</legend>
          <div className="line-list">
            {lines.map((line, index) => (
              <label key={line.sku} className="line-row">
                <span className="name clip">{line.sku}</span>
                <input
                  inputMode="numeric"
                  placeholder="0"
                  maxLength={13}
                  data-first={index === 0 || undefined}
                  value={typed[line.sku] ?? ""}
                  onChange={(event) => setTyped({ ...typed, [line.sku]: event.target.value })}
                />
                <span className="faint nowrap">/ {f.number(line.quantity - line.returned)}</span>
              </label>
            ))}
          </div>
          <Button look="quiet" icon="check" onClick={all}>
            {t.ledger.all}
          </Button>
        </fieldset>
        <IdField id={returnId} onChange={setReturnId} />
        {action.problem && <Note tone="bad">{action.problem}</Note>}
        <div className="dialog-actions">
          <Button onClick={onClose}>{t.common.keep}</Button>
          <Button
            type="submit"
            look="main"
            isBusy={action.isBusy}
            disabled={wanted === null || returnId === "" || action.isBusy}
          >
            {t.ledger.giveBack}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** The dialog that gives back a part of a deduction, under one id. */
import { useState } from "react";
import { post } from "../../api/client";
import { Button } from "../../part/basic";
import { Dialog } from "../../part/dialog";
import { Form } from "../../part/form";
import { useAction } from "../../part/toast";
import { useText } from "../../text";
import { IdField } from "./act";
import { returnOf, sumOf, type TakenLine } from "./line";
import { useOnce } from "./once";

interface GiveBackProps {
  id: string;
  lines: readonly TakenLine[];
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

  const submit = async () => {
    if (wanted === null) return;
    const done = await action.run(
      () =>
        tried(() =>
          post("ledger/deductions/{id}/returns", {
            params: { id },
            query: { shard },
            body: { id: returnId, lines: wanted },
          }),
        ),
      (made) => t.ledger.gaveBack(f.number(sumOf(made.lines)), id),
    );
    if (done) onClose();
  };

  return (
    <Dialog title={t.ledger.giveBackTitle(id)} onClose={onClose}>
      <Form
        action={t.ledger.giveBack}
        isBusy={action.isBusy}
        isReady={wanted !== null && returnId !== ""}
        problem={action.problem}
        onSubmit={() => void submit()}
        onClose={onClose}
      >
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
      </Form>
    </Dialog>
  );
}

/** Actions on a switch: pause, resume, close the breaker, change its settings. */
import { useState } from "react";
import { post } from "../../api/client";
import { useAsk } from "../../part/ask";
import { Button } from "../../part/basic";
import { Dialog } from "../../part/dialog";
import { Field, Form } from "../../part/form";
import { useAction } from "../../part/toast";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import type { Switch } from ".";
import { PauseDialog } from "./pause";

export function SwitchActions({ row, isFull = false }: { row: Switch; isFull?: boolean }) {
  const { t } = useText();
  const { canAct } = useSession();
  const action = useAsk();
  const [isSetting, setSetting] = useState(false);
  const [isPausing, setPausing] = useState(false);
  if (!canAct) return null;
  const isOpen = row.breaker !== "closed";

  const params = { kind: row.kind };
  const resume = () =>
    action.run(
      () => post("switches/{kind}/resume", { params }),
      () => t.switch.resumed(row.kind),
    );
  const closeBreaker = () =>
    action.ask(
      { title: t.switch.closeTitle(row.kind), text: t.switch.closeText, action: t.switch.close },
      () => post("switches/{kind}/close-breaker", { params }),
      () => t.switch.closed(row.kind),
    );

  return (
    <span className="row-actions">
      {isFull && isOpen && (
        <Button icon="bolt" isBusy={action.isBusy} onClick={() => void closeBreaker()}>
          {t.switch.close}
        </Button>
      )}
      <Button icon="settings" onClick={() => setSetting(true)}>
        {t.switch.set}
      </Button>
      {row.off || isOpen ? (
        <Button icon="play" look="main" isBusy={action.isBusy} onClick={() => void resume()}>
          {t.switch.resume}
        </Button>
      ) : (
        <Button icon="pause" onClick={() => setPausing(true)}>
          {t.switch.pause}
        </Button>
      )}
      {isPausing && (
        <PauseDialog
          title={t.switch.pauseTitle(row.kind)}
          text={t.switch.pauseText}
          send={(body) => post("switches/{kind}/pause", { params, body })}
          says={t.switch.paused(row.kind)}
          onClose={() => setPausing(false)}
        />
      )}
      {isSetting && <SetDialog row={row} onClose={() => setSetting(false)} />}
    </span>
  );
}

function SetDialog({ row, onClose }: { row: Switch; onClose: () => void }) {
  const { t } = useText();
  const action = useAction();
  const [rate, setRate] = useState(row.rate ?? "");
  const [window_, setWindow] = useState(row.window ?? "");
  const [concurrency, setConcurrency] = useState(row.concurrency?.toString() ?? "");

  const submit = async () => {
    const body = {
      rate: rate.trim() || null,
      window: window_.trim() || null,
      concurrency: concurrency.trim() ? Number(concurrency) : null,
    };
    const done = await action.run(
      () => post("switches/{kind}/set", { params: { kind: row.kind }, body }),
      () => t.switch.wasSet(row.kind),
    );
    if (done) onClose();
  };

  return (
    <Dialog title={t.switch.setTitle(row.kind)} onClose={onClose}>
      <Form
        action={t.switch.save}
        isBusy={action.isBusy}
        problem={action.problem}
        onSubmit={() => void submit()}
        onClose={onClose}
      >
        <p>{t.switch.setText}</p>
        <Field
          label={t.switch.rate}
          hint={t.switch.rateHint}
          autoFocus
          value={rate}
          placeholder={t.switch.holdsNow(row.holds.rate ?? t.switch.noLimit)}
          onText={setRate}
        />
        <Field
          label={t.switch.window}
          hint={t.switch.windowHint}
          value={window_}
          placeholder={t.switch.holdsNow(row.holds.window ?? t.switch.always)}
          onText={setWindow}
        />
        <Field
          label={t.switch.concurrency}
          type="number"
          min={1}
          max={100_000}
          value={concurrency}
          placeholder={t.switch.holdsNow(row.holds.concurrency?.toString() ?? t.switch.noLimit)}
          onText={setConcurrency}
        />
      </Form>
    </Dialog>
  );
}

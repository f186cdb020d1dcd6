/** What one can do to a switch: pause, resume, close the breaker, and set what holds. */
import { useState, type FormEvent } from "react";
import { post } from "../../api/client";
import type { SwitchOut } from "../../api/model";
import { Button, Note } from "../../part/basic";
import { Dialog, useConfirm } from "../../part/dialog";
import { useAction } from "../../part/toast";
import { pathOf } from "../../route/address";
import { useSession } from "../../shell/session";
import { useText } from "../../text";

export function SwitchActions({ row, isFull = false }: { row: SwitchOut; isFull?: boolean }) {
  const { t } = useText();
  const { canAct } = useSession();
  const confirm = useConfirm();
  const action = useAction();
  const [isSetting, setSetting] = useState(false);
  if (!canAct) return null;
  const isOpen = row.breaker !== "closed";

  const send = (verb: string, body: object | undefined, says: string) =>
    action.run(
      () => post<SwitchOut>(pathOf("switches", row.kind, verb), body),
      () => says,
    );
  const pause = async () => {
    const reason = await confirm({
      title: t.switch.pauseTitle(row.kind),
      text: t.switch.pauseText,
      action: t.switch.pause,
      reason: true,
    });
    if (reason !== null) await send("pause", { reason }, t.switch.paused(row.kind));
  };
  const closeBreaker = async () => {
    const isSure = await confirm({
      title: t.switch.closeTitle(row.kind),
      text: t.switch.closeText,
      action: t.switch.close,
    });
    if (isSure !== null) await send("close-breaker", undefined, t.switch.closed(row.kind));
  };

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
        <Button
          icon="play"
          look="main"
          isBusy={action.isBusy}
          onClick={() => void send("resume", undefined, t.switch.resumed(row.kind))}
        >
          {t.switch.resume}
        </Button>
      ) : (
        <Button icon="pause" isBusy={action.isBusy} onClick={() => void pause()}>
          {t.switch.pause}
        </Button>
      )}
      {isSetting && <SetDialog row={row} onClose={() => setSetting(false)} />}
    </span>
  );
}

function SetDialog({ row, onClose }: { row: SwitchOut; onClose: () => void }) {
  const { t } = useText();
  const action = useAction();
  const [rate, setRate] = useState(row.rate ?? "");
  const [window_, setWindow] = useState(row.window ?? "");
  const [concurrency, setConcurrency] = useState(row.concurrency?.toString() ?? "");

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const body = {
      rate: rate.trim() || null,
      window: window_.trim() || null,
      concurrency: concurrency.trim() ? Number(concurrency) : null,
    };
    const done = await action.run(
      () => post<SwitchOut>(pathOf("switches", row.kind, "set"), body),
      () => t.switch.wasSet(row.kind),
    );
    if (done) onClose();
  };

  return (
    <Dialog title={t.switch.setTitle(row.kind)} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <p>{t.switch.setText}</p>
        <label className="field">
          <span>{t.switch.rate}</span>
          <input
            value={rate}
            autoFocus
            placeholder={t.switch.holdsNow(row.holds.rate ?? t.switch.noLimit)}
            onChange={(event) => setRate(event.target.value)}
          />
          <small>{t.switch.rateHint}</small>
        </label>
        <label className="field">
          <span>{t.switch.window}</span>
          <input
            value={window_}
            placeholder={t.switch.holdsNow(row.holds.window ?? t.switch.always)}
            onChange={(event) => setWindow(event.target.value)}
          />
          <small>{t.switch.windowHint}</small>
        </label>
        <label className="field">
          <span>{t.switch.concurrency}</span>
          <input
            type="number"
            min={1}
            max={100_000}
            value={concurrency}
            placeholder={t.switch.holdsNow(row.holds.concurrency?.toString() ?? t.switch.noLimit)}
            onChange={(event) => setConcurrency(event.target.value)}
          />
        </label>
        {action.problem && <Note tone="bad">{action.problem}</Note>}
        <div className="dialog-actions">
          <Button onClick={onClose}>{t.common.keep}</Button>
          <Button type="submit" look="main" isBusy={action.isBusy}>
            {t.switch.save}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

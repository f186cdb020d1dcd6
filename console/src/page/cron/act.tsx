/** Actions on a cron: run it now, pause it, change its schedule and take that back. */
import { useState } from "react";
import { post } from "../../api/client";
import { useAsk } from "../../part/ask";
import { Button } from "../../part/basic";
import { Segments } from "../../part/control";
import { Dialog } from "../../part/dialog";
import { Field, Form } from "../../part/form";
import { useAction } from "../../part/toast";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import { sentence } from "../../text/said";
import { PauseDialog } from "../switch/pause";
import type { Cron } from ".";

export function CronActions({ row, isFull = false }: { row: Cron; isFull?: boolean }) {
  const { t, f } = useText();
  const { canAct } = useSession();
  const action = useAsk();
  const [open, setOpen] = useState<"pause" | "set" | null>(null);
  if (!canAct) return null;
  const params = { kind: row.kind };

  const run = () =>
    action.ask(
      { title: t.cron.runTitle(row.kind), text: t.cron.runText, action: t.cron.run },
      () => post("crons/{kind}/run", { params }),
      (done) => t.cron.started(done.id),
    );
  const resume = () =>
    action.run(
      () => post("switches/{kind}/resume", { params }),
      () => t.switch.resumed(row.kind),
    );
  const reset = () =>
    action.ask(
      {
        title: t.cron.resetTitle(row.kind),
        text: t.cron.resetText(sentence(row.declared.words, t, f)),
        action: t.cron.reset,
      },
      () => post("crons/{kind}/reset", { params }),
      ({ cron }) => t.cron.changed(row.kind, sentence(cron.schedule.words, t, f)),
    );
  const close = () => setOpen(null);

  return (
    <span className="row-actions">
      {isFull && row.changed && (
        <Button icon="retry" isBusy={action.isBusy} onClick={() => void reset()}>
          {t.cron.reset}
        </Button>
      )}
      {isFull && (
        <Button icon="clock" onClick={() => setOpen("set")}>
          {t.cron.change}
        </Button>
      )}
      {row.off ? (
        <Button icon="play" isBusy={action.isBusy} onClick={() => void resume()}>
          {t.switch.resume}
        </Button>
      ) : (
        <Button icon="pause" onClick={() => setOpen("pause")}>
          {t.switch.pause}
        </Button>
      )}
      <Button
        icon="play"
        look={isFull ? "main" : "plain"}
        isBusy={action.isBusy}
        onClick={() => void run()}
      >
        {t.cron.run}
      </Button>
      {open === "pause" && (
        <PauseDialog
          title={t.switch.pauseTitle(row.kind)}
          text={t.switch.pauseText}
          send={(body) => post("switches/{kind}/pause", { params, body })}
          says={t.switch.paused(row.kind)}
          onClose={close}
        />
      )}
      {open === "set" && <SetDialog row={row} onClose={close} />}
    </span>
  );
}

type Mode = "cron" | "every";

const EVERY = "@every ";

function SetDialog({ row, onClose }: { row: Cron; onClose: () => void }) {
  const { t, f } = useText();
  const action = useAction();
  const now = row.schedule.cron;
  const [mode, setMode] = useState<Mode>(now.startsWith(EVERY) ? "every" : "cron");
  const [expression, setExpression] = useState(now.startsWith(EVERY) ? "" : now);
  const [every, setEvery] = useState(now.startsWith(EVERY) ? now.slice(EVERY.length) : "");
  const [zone, setZone] = useState(mode === "cron" ? row.schedule.zone : "");
  const text = (mode === "cron" ? expression : every).trim();

  const submit = async () => {
    const body = mode === "cron" ? { cron: text, tz: zone.trim() || null } : { every: text };
    const done = await action.run(
      () => post("crons/{kind}/set", { params: { kind: row.kind }, body }),
      ({ cron }) => t.cron.changed(row.kind, sentence(cron.schedule.words, t, f)),
    );
    if (done) onClose();
  };

  return (
    <Dialog title={t.cron.changeTitle(row.kind)} onClose={onClose}>
      <Form
        action={t.cron.set}
        isBusy={action.isBusy}
        isReady={text !== ""}
        problem={action.problem}
        onSubmit={() => void submit()}
        onClose={onClose}
      >
        <p>{t.cron.changeText}</p>
        <Segments<Mode>
          label={t.cron.mode}
          value={mode}
          choices={[
            { value: "cron", label: t.cron.expression },
            { value: "every", label: t.cron.every },
          ]}
          onChoose={setMode}
        />
        {mode === "cron" ? (
          <>
            <Field
              data-first
              label={t.cron.expression}
              hint={t.cron.expressionHint}
              value={expression}
              maxLength={200}
              spellCheck={false}
              onText={setExpression}
            />
            <Field
              label={t.cron.zone}
              hint={t.cron.zoneHint}
              value={zone}
              maxLength={100}
              spellCheck={false}
              onText={setZone}
            />
          </>
        ) : (
          <Field
            label={t.cron.every}
            hint={t.cron.everyHint}
            value={every}
            maxLength={100}
            onText={setEvery}
          />
        )}
      </Form>
    </Dialog>
  );
}

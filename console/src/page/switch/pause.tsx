/** Pauses: the dialog that asks why and until when, and the switches of everything and of groups. */
import { useState } from "react";
import type { Row } from "../../api/call";
import { post } from "../../api/client";
import { useLive } from "../../data/hook";
import { Ago, Button, Card } from "../../part/basic";
import { Dialog } from "../../part/dialog";
import { Faces } from "../../part/faces";
import { Field, Form, ReasonField } from "../../part/form";
import { Badge } from "../../part/status";
import { useAction } from "../../part/toast";
import { useSession } from "../../shell/session";
import { useText } from "../../text";

export type Pause = Row<"pauses">;

interface PauseDialogProps {
  title: string;
  text: string;
  isDanger?: boolean;
  /** What the button does; true if it worked. */
  send: (body: { reason: string; until: string | null }) => Promise<unknown>;
  says: string;
  onClose: () => void;
}

export function PauseDialog({ title, text, isDanger, send, says, onClose }: PauseDialogProps) {
  const { t } = useText();
  const action = useAction();
  const [reason, setReason] = useState("");
  const [until, setUntil] = useState("");
  const submit = async () => {
    const done = await action.run(
      () => send({ reason, until: until.trim() || null }),
      () => says,
    );
    if (done) onClose();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <Form
        action={t.switch.pause}
        icon="pause"
        isDanger={isDanger}
        isBusy={action.isBusy}
        problem={action.problem}
        onSubmit={() => void submit()}
        onClose={onClose}
      >
        <p>{text}</p>
        <ReasonField autoFocus value={reason} onText={setReason} />
        <Field
          label={t.switch.until}
          hint={t.switch.untilHint}
          value={until}
          maxLength={100}
          placeholder={t.switch.untilResumed}
          onText={setUntil}
        />
      </Form>
    </Dialog>
  );
}

/** Everything, and each group. */
export function PauseCard() {
  const { t } = useText();
  const resource = useLive("pauses", { topics: ["switches"], seconds: 15 });
  return (
    <Card isFlush className="pause-card">
      <Faces resource={resource} lines={2}>
        {(rows) => (
          <ul className="pauses" aria-label={t.switch.pauses}>
            {rows.map((row) => (
              <PauseLine key={row.name} row={row} />
            ))}
          </ul>
        )}
      </Faces>
    </Card>
  );
}

function PauseLine({ row }: { row: Pause }) {
  const { t } = useText();
  const name = row.group === null ? t.switch.everything : t.switch.groupNamed(row.group);
  return (
    <li className={row.off ? "paused" : undefined}>
      <span className="stack">
        <strong>{name}</strong>
        <small title={row.kinds.join(", ")}>{t.switch.kindCount(row.kinds.length)}</small>
      </span>
      <span className="stack pause-state">
        {row.off ? (
          <span className="inline">
            <Badge tone="warn" icon="pause">
              {t.switch.isPaused}
            </Badge>
            <small>
              {row.who} · <Ago at={row.since} />
              {row.until !== null && (
                <>
                  {" · "}
                  {t.switch.resumes} <Ago at={row.until} />
                </>
              )}
            </small>
          </span>
        ) : (
          <Badge tone="good" icon="check">
            {t.switch.on}
          </Badge>
        )}
        {row.off && row.reason && <small className="clip">{row.reason}</small>}
      </span>
      <PauseAction row={row} name={name} />
    </li>
  );
}

function PauseAction({ row, name }: { row: Pause; name: string }) {
  const { t } = useText();
  const { canAct } = useSession();
  const action = useAction();
  const [isAsking, setAsking] = useState(false);
  if (!canAct) return null;
  const { group } = row;
  if (row.off) {
    const resume = () =>
      action.run(
        () => post("resume", { body: { group } }),
        () => t.switch.resumed(name),
      );
    return (
      <Button icon="play" look="main" isBusy={action.isBusy} onClick={() => void resume()}>
        {t.switch.resume}
      </Button>
    );
  }
  return (
    <>
      <Button icon="pause" onClick={() => setAsking(true)}>
        {group === null ? t.switch.pauseAll : t.switch.pause}
      </Button>
      {isAsking && (
        <PauseDialog
          title={t.switch.pauseTitle(name)}
          text={
            group === null ? t.switch.pauseAllText : t.switch.pauseGroupText(row.kinds.join(", "))
          }
          isDanger={group === null}
          send={(body) => post("pause", { body: { ...body, group } })}
          says={t.switch.paused(name)}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  );
}

/** Makes a token and shows it, once. It is kept nowhere but in this dialog. */
import { useState } from "react";
import { post } from "../../api/client";
import type { Post } from "../../api/path";
import { Button, Note } from "../../part/basic";
import { Segments } from "../../part/control";
import { Dialog } from "../../part/dialog";
import { Field, Form } from "../../part/form";
import { useAction, useTell } from "../../part/toast";
import { useText } from "../../text";
import { ROLES, type Role } from ".";

type NewToken = Post["tokens"]["answer"];

const SPANS = ["30d", "90d", "365d", ""] as const;
type Span = (typeof SPANS)[number];

const NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/;

export function CreateDialog({ onClose }: { onClose: () => void }) {
  const { t } = useText();
  const action = useAction();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [span, setSpan] = useState<Span>("90d");
  const [made, setMade] = useState<NewToken>();

  const submit = async () => {
    const body = { name, role, expires: span || null };
    const done = await action.run(
      () => post("tokens", { body }),
      (token) => t.token.created(token.name),
    );
    if (done) setMade(done);
  };

  if (made) return <MadeDialog made={made} onClose={onClose} />;
  return (
    <Dialog title={t.token.createTitle} onClose={onClose}>
      <Form
        action={t.token.create}
        isBusy={action.isBusy}
        isReady={NAME.test(name)}
        problem={action.problem}
        onSubmit={() => void submit()}
        onClose={onClose}
      >
        <Field
          label={t.token.name}
          hint={t.token.nameHint}
          className="mono"
          required
          autoFocus
          autoComplete="off"
          spellCheck={false}
          maxLength={64}
          placeholder="nightly-import"
          value={name}
          onText={setName}
        />
        <div className="field">
          <span>{t.token.role}</span>
          <Segments
            label={t.token.role}
            value={role}
            choices={ROLES.map((value) => ({ value, label: t.token.roles[value] }))}
            onChoose={setRole}
          />
          <small aria-live="polite">{t.token.rights[role]}</small>
        </div>
        <div className="field">
          <span>{t.token.ends}</span>
          <Segments
            label={t.token.ends}
            value={span}
            choices={SPANS.map((value) => ({ value, label: t.token.spans[value || "never"] }))}
            onChoose={setSpan}
          />
        </div>
      </Form>
    </Dialog>
  );
}

function MadeDialog({ made, onClose }: { made: NewToken; onClose: () => void }) {
  const { t, f } = useText();
  const tell = useTell();
  // Browsers offer the clipboard only over HTTPS.
  const canCopy = window.isSecureContext;
  const copy = async () => {
    await navigator.clipboard.writeText(made.token);
    tell("good", t.token.copied);
  };
  const until = made.expires_at ? t.token.until(f.moment(made.expires_at)) : t.token.forEver;
  return (
    <Dialog title={t.token.madeTitle(made.name)} onClose={onClose}>
      <div className="made-token">
        <Note tone="warn">{t.token.once}</Note>
        <output className="token-text" aria-label={t.token.text} tabIndex={0} data-first>
          {made.token}
        </output>
        <p>
          {t.token.roles[made.role]} · {until}
        </p>
        <p>{t.token.how}</p>
      </div>
      <div className="dialog-actions">
        {canCopy && (
          <Button icon="copy" look="main" onClick={() => void copy()}>
            {t.token.copy}
          </Button>
        )}
        <Button onClick={onClose}>{t.token.kept}</Button>
      </div>
    </Dialog>
  );
}

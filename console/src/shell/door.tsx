/** The door: finds out who the user is, and asks for the secret or for the printed link. */
import { useCallback, useEffect, useMemo, useState, type FormEvent } from "react";
import { fetchSession, logIn, logOut, problemOf, whenLoggedOut, type Problem } from "../api/client";
import { cache } from "../data/cache";
import { Button, Note } from "../part/basic";
import { Skeleton, Trouble, wordsOf } from "../part/faces";
import { Field } from "../part/form";
import { useText } from "../text";
import { Frame } from "./frame";
import { Mark } from "./mark";
import { SessionContext, type Session } from "./session";

export function Door() {
  const [session, setSession] = useState<Session>();
  const [problem, setProblem] = useState<Problem>();

  const look = useCallback(() => {
    fetchSession().then(
      (found) => {
        setProblem(undefined);
        setSession(found);
      },
      (cause: unknown) => setProblem(problemOf(cause)),
    );
  }, []);

  useEffect(() => {
    whenLoggedOut(look);
    look();
  }, [look]);

  const state = useMemo(() => {
    if (!session?.is_logged_in) return null;
    const leave = () => {
      cache.clear();
      void logOut().then(setSession, look);
    };
    return { session, canAct: !session.read_only, leave };
  }, [session, look]);

  if (state) {
    return (
      <SessionContext value={state}>
        <Frame />
      </SessionContext>
    );
  }
  return (
    <main className="door">
      <div className="door-card">
        <Mark />
        {problem && <Trouble problem={problem} onRetry={look} isBusy={false} />}
        {!problem && !session && <Skeleton lines={3} />}
        {session && <LogIn hasSecret={session.needs_secret} onIn={setSession} />}
      </div>
    </main>
  );
}

function LogIn(props: { hasSecret: boolean; onIn: (session: Session) => void }) {
  const { hasSecret, onIn } = props;
  const { t } = useText();
  const [secret, setSecret] = useState("");
  const [name, setName] = useState("");
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      onIn(await logIn(secret, name));
    } catch (cause) {
      setProblem(wordsOf(problemOf(cause), t));
    } finally {
      setBusy(false);
    }
  };

  return (
    <form onSubmit={(event) => void submit(event)}>
      <p className="lead">{hasSecret ? t.door.lead : t.door.linkLead}</p>
      <Field
        label={hasSecret ? t.door.secret : t.door.token}
        type="password"
        autoComplete="current-password"
        required
        autoFocus
        value={secret}
        onText={setSecret}
      />
      <Field
        label={t.door.name}
        autoComplete="username"
        maxLength={100}
        placeholder={t.door.nameHint}
        value={name}
        onText={setName}
      />
      {problem && <Note tone="bad">{problem}</Note>}
      <Button type="submit" look="main" isBusy={isBusy}>
        {t.door.enter}
      </Button>
    </form>
  );
}

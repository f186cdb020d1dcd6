/** The door: finds out who is there, asks for the secret if need be, and lets them in. */
import { useCallback, useEffect, useMemo, useState, type FormEvent } from "react";
import { fetchSession, logIn, logOut, Problem, whenLoggedOut } from "../api/client";
import type { SessionView } from "../api/model";
import { cache } from "../data/cache";
import { Button, Note } from "../part/basic";
import { Skeleton, Trouble } from "../part/faces";
import { useText } from "../text";
import { Frame } from "./frame";
import { Mark } from "./mark";
import { SessionContext } from "./session";

export function Door() {
  const [session, setSession] = useState<SessionView>();
  const [problem, setProblem] = useState<Problem>();

  const look = useCallback(() => {
    fetchSession().then(
      (found) => {
        setProblem(undefined);
        setSession(found);
      },
      (cause: unknown) => {
        setProblem(cause instanceof Problem ? cause : new Problem(0, "Unreachable", ""));
      },
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
        {session && <LogIn onIn={setSession} />}
      </div>
    </main>
  );
}

function LogIn({ onIn }: { onIn: (session: SessionView) => void }) {
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
      const isKnown = cause instanceof Problem && cause.status !== 0;
      setProblem(isKnown ? cause.message : t.common.unreachable);
    } finally {
      setBusy(false);
    }
  };

  return (
    <form onSubmit={(event) => void submit(event)}>
      <p className="lead">{t.door.lead}</p>
      <label className="field">
        <span>{t.door.secret}</span>
        <input
          type="password"
          autoComplete="current-password"
          required
          autoFocus
          value={secret}
          onChange={(event) => setSecret(event.target.value)}
        />
      </label>
      <label className="field">
        <span>{t.door.name}</span>
        <input
          autoComplete="username"
          maxLength={100}
          placeholder={t.door.nameHint}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      </label>
      {problem && <Note tone="bad">{problem}</Note>}
      <Button type="submit" look="main" isBusy={isBusy}>
        {t.door.enter}
      </Button>
    </form>
  );
}

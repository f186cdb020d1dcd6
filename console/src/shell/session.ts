/** The session, for all pages. */
import { createContext, useContext } from "react";
import type { Answer } from "../api/call";

export type Session = Answer<"session">;

export interface SessionState {
  readonly session: Session;
  /** Whether buttons that change something are shown. */
  readonly canAct: boolean;
  readonly leave: () => void;
}

/** Whether logging out makes sense: a used link or a proxy would not let the person choose again. */
export function canLeave(session: Session): boolean {
  return session.by === "secret" || session.by === "token";
}

export const SessionContext = createContext<SessionState | null>(null);

export function useSession(): SessionState {
  const state = useContext(SessionContext);
  if (state === null) throw new Error("useSession needs a Door around it");
  return state;
}

/** Who is there, for all pages. */
import { createContext, useContext } from "react";
import type { SessionView } from "../api/model";

export interface SessionState {
  readonly session: SessionView;
  /** Whether buttons that change something are there. */
  readonly canAct: boolean;
  readonly leave: () => void;
}

export const SessionContext = createContext<SessionState | null>(null);

export function useSession(): SessionState {
  const state = useContext(SessionContext);
  if (state === null) throw new Error("useSession needs a Door around it");
  return state;
}

/** The API: every request goes through here, and every error comes out as a Problem. */
import type { SessionView } from "./model";

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    detail: string,
  ) {
    super(detail);
  }

  /** Whether nobody got an answer, so that trying again may help. */
  get isOutage(): boolean {
    return this.status === 0 || this.status >= 500;
  }
}

let token: string | null = null;
let onLoggedOut: () => void = () => undefined;

/** Have `listen` called when the API no longer knows who we are. */
export function whenLoggedOut(listen: () => void): void {
  onLoggedOut = listen;
}

export async function fetchSession(): Promise<SessionView> {
  return remember(await get<SessionView>("session"));
}

export async function logIn(secret: string, name: string): Promise<SessionView> {
  return remember(await send<SessionView>("POST", "session", { secret, name }));
}

export async function logOut(): Promise<SessionView> {
  return remember(await send<SessionView>("DELETE", "session"));
}

export function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return request<T>(path, signal ? { signal } : {});
}

/** Change something; if the token is old a new one is asked for, once. */
export async function post<T>(path: string, body?: object): Promise<T> {
  try {
    return await send<T>("POST", path, body);
  } catch (problem) {
    if (!(problem instanceof Problem) || problem.title !== "NoToken") throw problem;
    await fetchSession();
    return send<T>("POST", path, body);
  }
}

export function urlOf(path: string): string {
  return new URL(`api/${path}`, document.baseURI).href;
}

function remember(session: SessionView): SessionView {
  token = session.token;
  return session;
}

function send<T>(method: string, path: string, body?: object): Promise<T> {
  const headers: Record<string, string> = {};
  if (token !== null) headers["x-csrf-token"] = token;
  if (body === undefined) return request<T>(path, { method, headers });
  headers["content-type"] = "application/json";
  return request<T>(path, { method, headers, body: JSON.stringify(body) });
}

async function request<T>(path: string, init: RequestInit): Promise<T> {
  let response: Response;
  try {
    response = await fetch(urlOf(path), { ...init, credentials: "same-origin" });
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new Problem(0, "Unreachable", "");
  }
  if (response.ok) return (await response.json()) as T;
  const problem = await problemOf(response);
  if (response.status === 401 && problem.title === "LogIn") onLoggedOut();
  throw problem;
}

async function problemOf(response: Response): Promise<Problem> {
  const about: unknown = await response.json().catch(() => null);
  const { title, detail } = (about ?? {}) as { title?: unknown; detail?: unknown };
  return new Problem(
    response.status,
    typeof title === "string" ? title : "HttpError",
    typeof detail === "string" ? detail : `${response.status} ${response.statusText}`,
  );
}

/** The API: every request goes through here, and every error comes out as a Problem. */
import { addressOf, type Answer, type Argument, type Given, type Parts } from "./call";
import type { Delete, Get, Post } from "./path";

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    detail: string,
    /** What else the API says of it, such as which argument is wrong. */
    readonly facts: Readonly<Record<string, unknown>> = {},
  ) {
    super(detail);
  }
}

/** Any error as a Problem; an error from elsewhere means that the API did not answer. */
export function problemOf(cause: unknown): Problem {
  return cause instanceof Problem ? cause : new Problem(0, "Unreachable", String(cause));
}

type Session = Answer<"session">;

let token: string | null = null;
let onLoggedOut: () => void = () => undefined;

/** Call `listen` when the API says that the session has ended. */
export function whenLoggedOut(listen: () => void): void {
  onLoggedOut = listen;
}

export async function fetchSession(): Promise<Session> {
  return remember(await get("session"));
}

export async function logIn(secret: string, name: string): Promise<Session> {
  return remember(await post("session", { body: { secret, name } }));
}

export async function logOut(): Promise<Session> {
  return remember(await remove("session"));
}

export function get<P extends keyof Get>(
  path: P,
  ...given: Argument<Given<Get[P]>>
): Promise<Answer<P>>;
export function get(path: string, given?: Parts): Promise<unknown> {
  return readAddress(addressOf(path, given));
}

export function post<P extends keyof Post>(
  path: P,
  ...given: Argument<Given<Post[P]>>
): Promise<Post[P]["answer"]>;
export function post(path: string, given?: Parts): Promise<unknown> {
  return change("POST", path, given);
}

export function remove<P extends keyof Delete>(
  path: P,
  ...given: Argument<Given<Delete[P]>>
): Promise<Delete[P]["answer"]>;
export function remove(path: string, given?: Parts): Promise<unknown> {
  return change("DELETE", path, given);
}

/** What an address answers. */
export function readAddress(address: string): Promise<unknown> {
  return request(address, {});
}

export function urlOf(address: string): string {
  return new URL(`api/${address}`, document.baseURI).href;
}

function remember(session: Session): Session {
  token = session.token;
  return session;
}

/** Change something; if the token is old a new one is fetched, once. */
async function change(method: string, path: string, given: Parts = {}): Promise<unknown> {
  const address = addressOf(path, given);
  try {
    return await send(method, address, given.body);
  } catch (problem) {
    if (!(problem instanceof Problem) || problem.title !== "NoToken") throw problem;
    await fetchSession();
    return send(method, address, given.body);
  }
}

function send(method: string, address: string, body?: object): Promise<unknown> {
  const headers: Record<string, string> = {};
  if (token !== null) headers["x-csrf-token"] = token;
  if (body === undefined) return request(address, { method, headers });
  headers["content-type"] = "application/json";
  return request(address, { method, headers, body: JSON.stringify(body) });
}

async function request(address: string, init: RequestInit): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(urlOf(address), { ...init, credentials: "same-origin" });
  } catch {
    throw new Problem(0, "Unreachable", "");
  }
  if (response.ok) return response.json();
  const problem = await problemIn(response);
  if (response.status === 401 && problem.title === "LogIn") onLoggedOut();
  throw problem;
}

async function problemIn(response: Response): Promise<Problem> {
  const about: unknown = await response.json().catch(() => null);
  const { title, detail } = (about ?? {}) as { title?: unknown; detail?: unknown };
  return new Problem(
    response.status,
    typeof title === "string" ? title : "HttpError",
    typeof detail === "string" ? detail : `${response.status} ${response.statusText}`,
    typeof about === "object" && about !== null ? { ...about } : {},
  );
}

/** Calls by their paths: what a call takes, what it answers, and its address below `api/`. */
import { queryOf, type Query } from "../route/address";
import type { Get } from "./path";

/** What a path answers when it is read. */
export type Answer<P extends keyof Get> = Get[P]["answer"];

/** One row of the list that a path answers. */
export type Row<P extends keyof Get> =
  Answer<P> extends readonly (infer T)[]
    ? T
    : Answer<P> extends { readonly items: readonly (infer T)[] }
      ? T
      : never;

/** Parameters, query and body of a call, as far as it has them. */
export type Given<Call> = Omit<Call, "answer">;

/** An argument that can be left out if it needs no field. */
export type Argument<T> = Partial<T> extends T ? [given?: T] : [given: T];

export interface Parts {
  readonly params?: Readonly<Record<string, string | number>>;
  readonly query?: Query;
  readonly body?: object;
}

/** The path with its parameters filled in, and the query. */
export function addressOf(path: string, { params = {}, query = {} }: Parts = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(params[name])),
  );
  return filled + queryOf(query);
}

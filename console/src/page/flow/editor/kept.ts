/** An unsaved draft, kept by this browser until it is saved or discarded. */
import { recall, store } from "../../../data/memory";
import { mountPath } from "../../../route/address";
import { isEqual, type Draft } from "./draft";

export interface Kept {
  /** When it was changed last, in milliseconds since the epoch. */
  readonly at: number;
  readonly name: string;
  readonly draft: Draft;
}

/** Each console has its own templates; a new one has no name yet. */
function placeOf(template: string): string {
  return `draft:${mountPath()}:${template}`;
}

export function keepDraft(template: string, kept: Kept): void {
  store(placeOf(template), JSON.stringify(kept));
}

export function dropDraft(template: string): void {
  store(placeOf(template), null);
}

/** The kept draft of a template, unless it is saved already or cannot be read. */
export function keptDraft(template: string, saved: Draft): Kept | null {
  const text = recall(placeOf(template));
  if (text === null) return null;
  try {
    const kept = JSON.parse(text) as Partial<Kept>;
    const { at, name, draft } = kept;
    const isWhole =
      typeof at === "number" &&
      typeof name === "string" &&
      Array.isArray(draft?.nodes) &&
      Array.isArray(draft.edges);
    if (!isWhole || isEqual(draft, saved)) return null;
    return { at, name, draft };
  } catch {
    return null;
  }
}

/**
 * The last answer of each address. A page shows it at once and reloads it in the background; when a
 * topic changes, everything on the screen that depends on it is read again.
 */
import { problemOf, readAddress, type Problem } from "../api/client";

export type Topic =
  | "tasks"
  | "failures"
  | "alerts"
  | "switches"
  | "workers"
  | "sweeps"
  | "control"
  | "audit"
  | "flows"
  | "ledger";

export interface Snapshot {
  readonly data?: unknown;
  readonly problem?: Problem;
  readonly at: number;
  readonly isBusy: boolean;
}

const NOTHING: Snapshot = { at: 0, isBusy: false };
const MOST_KEPT = 200;
// The shortest time between two reads of one address, however fast things change.
const SHORTEST_PAUSE = 900;

interface Entry {
  snapshot: Snapshot;
  readonly topics: Set<Topic>;
  readonly listeners: Set<() => void>;
  timer: ReturnType<typeof setTimeout> | undefined;
  /** Counts the requests: only the answer to the last one is kept. */
  asked: number;
}

export class Cache {
  private readonly entries = new Map<string, Entry>();

  constructor(private readonly read: (address: string) => Promise<unknown> = readAddress) {}

  snapshot(address: string): Snapshot {
    return this.entries.get(address)?.snapshot ?? NOTHING;
  }

  subscribe(address: string, topics: readonly Topic[], listen: () => void): () => void {
    const entry = this.entry(address);
    topics.forEach((topic) => entry.topics.add(topic));
    entry.listeners.add(listen);
    if (!entry.snapshot.isBusy) void this.load(address);
    return () => {
      entry.listeners.delete(listen);
      this.prune();
    };
  }

  /** Read an address now. */
  async load(address: string): Promise<void> {
    const entry = this.entry(address);
    clearTimeout(entry.timer);
    entry.timer = undefined;
    const mine = ++entry.asked;
    this.put(entry, { ...entry.snapshot, isBusy: true });
    try {
      const data = await this.read(address);
      if (mine === entry.asked) this.put(entry, { data, at: Date.now(), isBusy: false });
    } catch (cause) {
      if (mine !== entry.asked) return;
      const problem = problemOf(cause);
      this.put(entry, { ...entry.snapshot, problem, at: Date.now(), isBusy: false });
    }
  }

  /** Reload what is on the screen and depends on one of the topics; without topics, all of it. */
  changed(topics?: Iterable<string>): void {
    const names = topics === undefined ? null : new Set(topics);
    for (const [address, entry] of this.entries) {
      const isMeant = names === null || [...entry.topics].some((topic) => names.has(topic));
      if (entry.listeners.size > 0 && isMeant) this.loadSoon(address, entry);
    }
  }

  clear(): void {
    this.entries.forEach((entry) => clearTimeout(entry.timer));
    this.entries.clear();
  }

  private loadSoon(address: string, entry: Entry): void {
    if (entry.timer !== undefined) return;
    const pause = Math.max(0, entry.snapshot.at + SHORTEST_PAUSE - Date.now());
    entry.timer = setTimeout(() => void this.load(address), pause);
  }

  private entry(address: string): Entry {
    const known = this.entries.get(address);
    if (known) return known;
    const made: Entry = {
      snapshot: NOTHING,
      topics: new Set(),
      listeners: new Set(),
      timer: undefined,
      asked: 0,
    };
    this.entries.set(address, made);
    return made;
  }

  private put(entry: Entry, snapshot: Snapshot): void {
    entry.snapshot = snapshot;
    entry.listeners.forEach((listen) => listen());
  }

  private prune(): void {
    for (const [address, entry] of this.entries) {
      if (this.entries.size <= MOST_KEPT) return;
      if (entry.listeners.size === 0) this.entries.delete(address);
    }
  }
}

export const cache = new Cache();

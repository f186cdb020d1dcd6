/** Live changes: by server-sent events, or by polling where those do not get through. */
import { get, urlOf } from "../api/client";

export type LiveState = "live" | "polling" | "offline";

const POLL_MILLISECONDS = 3_000;
const LISTEN_AGAIN_MILLISECONDS = 30_000;
const FAILURES_BEFORE_POLLING = 2;

export class Live {
  private source: EventSource | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private marks: Readonly<Record<string, string>> | undefined;
  private failures = 0;
  private listenAgainAt = 0;
  state: LiveState = "offline";

  constructor(
    private readonly onChange: (topics?: readonly string[]) => void,
    private readonly onState: (state: LiveState) => void,
  ) {}

  start(): void {
    if (typeof EventSource === "undefined") void this.poll();
    else this.listen();
  }

  stop(): void {
    this.source?.close();
    this.source = undefined;
    clearTimeout(this.timer);
  }

  private listen(): void {
    this.stop();
    const source = new EventSource(urlOf("events"));
    this.source = source;
    source.onopen = () => {
      this.failures = 0;
      this.is("live");
      // Something may have changed while the connection was closed.
      this.onChange();
    };
    source.addEventListener("change", (event) => {
      this.onChange(JSON.parse(String(event.data)) as string[]);
    });
    source.onerror = () => {
      this.failures += 1;
      if (source.readyState !== EventSource.CLOSED && this.failures < FAILURES_BEFORE_POLLING) {
        this.is("offline");
        return;
      }
      this.listenAgainAt = Date.now() + LISTEN_AGAIN_MILLISECONDS;
      this.stop();
      void this.poll();
    };
  }

  private async poll(): Promise<void> {
    try {
      const { topics } = await get("changes");
      const before = this.marks;
      this.marks = topics;
      this.is("polling");
      if (before) this.tell(before, topics);
      else this.onChange();
    } catch {
      this.is("offline");
    }
    this.timer = setTimeout(() => {
      if (Date.now() >= this.listenAgainAt && typeof EventSource !== "undefined") this.listen();
      else void this.poll();
    }, POLL_MILLISECONDS);
  }

  private tell(before: Readonly<Record<string, string>>, now: Readonly<Record<string, string>>) {
    const changed = Object.keys(now).filter((topic) => now[topic] !== before[topic]);
    if (changed.length > 0) this.onChange(changed);
  }

  private is(state: LiveState): void {
    if (this.state === state) return;
    this.state = state;
    this.onState(state);
  }
}

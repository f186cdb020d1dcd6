// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Live } from "../../src/data/live";

class Source {
  static last: Source;
  static readonly CLOSED = 2;
  readyState = 0;
  onopen: () => void = () => undefined;
  onerror: () => void = () => undefined;
  private hear: (event: { data: string }) => void = () => undefined;

  constructor() {
    Source.last = this;
  }

  addEventListener(_name: string, hear: (event: { data: string }) => void) {
    this.hear = hear;
  }

  close() {
    this.readyState = Source.CLOSED;
  }

  tell(...topics: string[]) {
    this.hear({ data: JSON.stringify(topics) });
  }
}

let marks: Record<string, string> = {};

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("EventSource", Source);
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(JSON.stringify({ topics: marks }))));
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("live changes", () => {
  it("arrive as events", () => {
    const onChange = vi.fn();
    const live = new Live(onChange, () => undefined);

    live.start();
    Source.last.onopen();
    Source.last.tell("tasks", "alerts");

    expect(live.state).toBe("live");
    expect(onChange.mock.calls).toEqual([[], [["tasks", "alerts"]]]);
  });

  it("are polled when events do not get through, and events are tried again later", async () => {
    const onChange = vi.fn();
    const live = new Live(onChange, () => undefined);
    marks = { tasks: "1", alerts: "1" };

    live.start();
    const first = Source.last;
    first.onerror();
    first.onerror();
    await vi.advanceTimersByTimeAsync(10);
    expect(live.state).toBe("polling");

    marks = { tasks: "2", alerts: "1" };
    await vi.advanceTimersByTimeAsync(3_100);
    expect(onChange).toHaveBeenLastCalledWith(["tasks"]);

    await vi.advanceTimersByTimeAsync(40_000);
    expect(Source.last).not.toBe(first);
    live.stop();
  });
});

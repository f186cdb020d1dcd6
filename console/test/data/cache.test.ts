import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Problem } from "../../src/api/client";
import { Cache } from "../../src/data/cache";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const settle = () => vi.advanceTimersByTimeAsync(0);

describe("the cache", () => {
  it("reads when a listener subscribes, and notifies it", async () => {
    const cache = new Cache(() => Promise.resolve(7));
    const listen = vi.fn();

    cache.subscribe("kinds", [], listen);
    await settle();

    expect(cache.snapshot("kinds")).toMatchObject({ data: 7, isBusy: false });
    expect(listen).toHaveBeenCalledTimes(2);
  });

  it("keeps what it had when reading fails, with the problem beside it", async () => {
    const answers = [
      () => Promise.resolve("old"),
      () => Promise.reject(new Problem(503, "Down", "down")),
      () => Promise.resolve("new"),
    ];
    const cache = new Cache(() => answers.shift()?.() ?? Promise.resolve("more"));
    cache.subscribe("kinds", [], () => undefined);
    await settle();

    await cache.load("kinds");
    expect(cache.snapshot("kinds")).toMatchObject({ data: "old", problem: { status: 503 } });

    await cache.load("kinds");
    expect(cache.snapshot("kinds")).toMatchObject({ data: "new" });
    expect(cache.snapshot("kinds").problem).toBeUndefined();
  });

  it("reads again only what depends on the topic and is on the screen", async () => {
    const read = vi.fn(() => Promise.resolve(1));
    const cache = new Cache(read);
    const leave = cache.subscribe("tasks", ["tasks"], () => undefined);
    cache.subscribe("alerts", ["alerts"], () => undefined);
    await settle();
    read.mockClear();

    cache.changed(["tasks"]);
    cache.changed(["tasks"]);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(read.mock.calls).toEqual([["tasks"]]);

    leave();
    cache.changed(["tasks"]);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(read).toHaveBeenCalledTimes(1);
  });

  it("drops an answer that arrives after a later request", async () => {
    const waiting: ((value: string) => void)[] = [];
    const cache = new Cache(() => new Promise((resolve) => waiting.push(resolve)));
    cache.subscribe("kinds", [], () => undefined);
    void cache.load("kinds");

    waiting[1]?.("second");
    waiting[0]?.("first");
    await settle();

    expect(cache.snapshot("kinds").data).toBe("second");
  });
});

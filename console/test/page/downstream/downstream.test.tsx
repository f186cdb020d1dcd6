// @vitest-environment jsdom
import { cleanup, render, screen, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Row } from "../../../src/api/call";
import { cache } from "../../../src/data/cache";
import { DownstreamPage } from "../../../src/page/downstream";
import { DownstreamDetailPage } from "../../../src/page/downstream/detail";
import { ConfirmProvider } from "../../../src/part/dialog";
import { ToastProvider } from "../../../src/part/toast";
import { SessionContext, type Session } from "../../../src/shell/session";
import { TextProvider } from "../../../src/text";

const inventory: Row<"downstreams"> = {
  name: "inventory",
  adapt: false,
  declared: { rate: "700/s", concurrency: 50, window: null },
  holds: { rate: "300/s", concurrency: 20, window: null },
  problem: null,
  off: false,
  breaker: "closed",
  has_breaker: true,
  errors_in_a_row: 2,
  probe_at: null,
  held_back: null,
  held: null,
  home: "shop.db",
  permits_held: 12,
  permits_wanted: 14,
  permits: [{ worker: 7, held: 12, wanted: 14, waits_since: null }],
  history: [],
  kinds: [
    {
      kind: "look",
      starts_per_minute: 120,
      errors_per_minute: 3,
      mean_milliseconds: 25,
      held_back: null,
      held: null,
    },
    {
      kind: "book",
      starts_per_minute: 30,
      errors_per_minute: 0,
      mean_milliseconds: null,
      held_back: "paused by Ada: sale",
      held: { text: "paused by Ada: sale", code: "", values: {} },
    },
  ],
  missing: [],
};
const mail: Row<"downstreams"> = {
  ...inventory,
  name: "mail",
  off: true,
  held_back: "paused by Ada: moving",
  held: { text: "paused by Ada: moving", code: "", values: {} },
  holds: { rate: null, concurrency: null, window: null },
  kinds: [],
  permits: [],
};
const broken: Row<"downstreams"> = { ...mail, name: "search", off: false, breaker: "open" };

let answer: () => Promise<Response>;

function answers(value: unknown) {
  answer = () => Promise.resolve(new Response(JSON.stringify(value)));
}

function show(page = <DownstreamPage />) {
  const session = { by: "secret" } as unknown as Session;
  render(
    <TextProvider>
      <SessionContext value={{ session, canAct: false, leave: () => undefined }}>
        <ToastProvider>
          <ConfirmProvider>{page}</ConfirmProvider>
        </ToastProvider>
      </SessionContext>
    </TextProvider>,
  );
}

beforeEach(() => {
  vi.stubGlobal("fetch", () => answer());
});

afterEach(() => {
  cleanup();
  cache.clear();
  localStorage.clear();
  vi.unstubAllGlobals();
});

it("says that it loads until there is an answer", () => {
  answer = () => new Promise(() => undefined);
  show();

  expect(screen.getByRole("status", { name: "Loading" })).toBeDefined();
});

it("says how to declare a downstream when there is none", async () => {
  answers([]);
  show();

  expect(await screen.findByText("No downstreams")).toBeDefined();
});

it("says what went wrong and offers to try again", async () => {
  answer = () =>
    Promise.resolve(
      new Response(JSON.stringify({ status: 503, detail: "the database is away" }), {
        status: 503,
      }),
    );
  show();

  expect(await screen.findByText("the database is away")).toBeDefined();
});

it("shows each downstream with its limits, its permits and what its kinds take", async () => {
  answers([inventory, mail, broken]);
  show();

  const rows = (await screen.findAllByRole("row")).slice(1);
  const cells = rows.map((row) =>
    within(row)
      .getAllByRole("cell")
      .map((cell) => cell.textContent),
  );
  expect(cells[0]).toEqual(["inventory", "on", "300/s", "12 / 20", "150", "3"]);
  expect(cells[1]?.[1]).toContain("paused by Ada: moving");
  expect(cells[2]?.[1]).toContain("breaker open");
});

it("shows what each kind takes and the permits of each worker", async () => {
  answers(inventory);
  show(<DownstreamDetailPage name="inventory" />);

  const takes = await screen.findByRole("table", { name: "What each kind takes" });
  expect(takes.textContent).toContain("look");
  expect(takes.textContent).toContain("paused by Ada: sale");
  expect(screen.getByRole("table", { name: "Permits by worker" }).textContent).toContain("12");
  expect(screen.getByText("300/s, always, 20 at once")).toBeDefined();
  expect(screen.getByText("700/s, always, 50 at once")).toBeDefined();
});

it("draws how a downstream adapts, or says that nothing was measured yet", async () => {
  const measured = {
    at: "2026-11-18T12:00:00Z",
    rate: 120,
    concurrency: null,
    succeeded_per_second: 118,
    overloaded_per_second: 2,
    mean_milliseconds: 31,
  };
  answers({ ...inventory, adapt: true, history: [measured] });
  show(<DownstreamDetailPage name="inventory" />);
  const chart = await screen.findByRole("slider", { name: "How it adapts" });
  expect(chart.getAttribute("aria-valuetext")).toContain("limit 120/s · 118/s served");
  cleanup();
  cache.clear();

  answers({ ...inventory, adapt: true });
  show(<DownstreamDetailPage name="inventory" />);
  expect(await screen.findByText("Nothing measured yet")).toBeDefined();
});

it("says when no kind calls it", async () => {
  answers(broken);
  show(<DownstreamDetailPage name="search" />);

  expect(await screen.findByText("No kind calls it")).toBeDefined();
});

it("speaks Chinese", async () => {
  localStorage.setItem("windlass.language", "zh");
  answers([inventory]);
  show();

  expect(await screen.findByRole("heading", { name: "下游" })).toBeDefined();
});

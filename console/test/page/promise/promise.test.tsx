// @vitest-environment jsdom
import { cleanup, render, screen, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Row } from "../../../src/api/call";
import { cache } from "../../../src/data/cache";
import { PromisePage } from "../../../src/page/promise";
import { TextProvider } from "../../../src/text";

const slow: Row<"promises"> = {
  kind: "stock_level",
  face: "rolling",
  promise: "each item every 10d",
  within: 864_000,
  state: "at risk",
  standing: "0 of 400,000 items are overdue",
  forecast: "breaks on Thursday 2026-01-08 14:10 UTC at the present 412/s; needs 466/s",
  cure: "a higher rate: windlass set stock_level --rate 466/s",
  breaks_at: "2026-01-08T14:10:00Z",
  ends_at: null,
  oldest_age: 1_000,
  overdue: 0,
  percent: null,
  rate: 412,
  needed_rate: 466,
  held_back: null,
  missing: [],
};
const broken: Row<"promises"> = {
  ...slow,
  kind: "offer",
  face: "sweep",
  promise: "a round within 4h",
  state: "broken",
  held_back: "paused by Ada: sale",
  cure: "resume it: windlass resume offer",
};
const kept: Row<"promises"> = {
  ...slow,
  kind: "send_mail",
  face: "task",
  state: "kept",
  cure: null,
  rate: null,
  needed_rate: null,
};
const unknown: Row<"promises"> = { ...kept, kind: "report", face: "cron", state: "unknown" };

let answer: () => Promise<Response>;

function answers(items: readonly Row<"promises">[], missing: readonly string[] = []) {
  answer = () => Promise.resolve(new Response(JSON.stringify({ items, next: null, missing })));
}

function show() {
  render(
    <TextProvider>
      <PromisePage />
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

it("says how to declare a promise when there is none", async () => {
  answers([]);
  show();

  expect(await screen.findByText("No promises")).toBeDefined();
  expect(screen.getByText('@app.task(within="10m")')).toBeDefined();
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
  expect(screen.getByRole("button", { name: "Try again" })).toBeDefined();
});

it("shows each promise with its state, its forecast and its cure", async () => {
  answers([broken, slow, kept, unknown], ["second.db"]);
  show();

  const rows = (await screen.findAllByRole("row")).slice(1);
  expect(rows.map((row) => within(row).getAllByRole("cell")[0]?.textContent)).toEqual([
    "broken",
    "at risk",
    "kept",
    "unknown",
  ]);
  expect(rows[0]?.textContent).toContain("paused by Ada: sale");
  expect(rows[0]?.textContent).toContain("resume it: windlass resume offer");
  expect(rows[1]?.textContent).toContain("at the present 412/s; needs 466/s");
  expect(rows[1]?.textContent).toContain("412 / 466");
  expect(rows[2]?.textContent).toContain("– / –");
  expect(screen.getByText(/No answer from second.db/)).toBeDefined();
});

it("leads from a promise to the page of its kind", async () => {
  answers([broken, slow, kept]);
  show();

  await screen.findAllByRole("row");
  const links = screen.getAllByRole("link").map((link) => link.getAttribute("href") ?? "");
  expect(links.map((link) => link.replace(/^.*?(?=sweeps|rolling|switches)/, ""))).toEqual([
    "sweeps/offer",
    "rolling/stock_level",
    "switches/send_mail",
  ]);
});

it("speaks Chinese", async () => {
  localStorage.setItem("windlass.language", "zh");
  answers([broken, slow]);
  show();

  const rows = (await screen.findAllByRole("row")).slice(1);
  expect(rows[0]?.textContent).toContain("已违约");
  expect(rows[1]?.textContent).toContain("有风险");
});

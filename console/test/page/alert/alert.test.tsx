// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Row } from "../../../src/api/call";
import { cache } from "../../../src/data/cache";
import { AlertPage } from "../../../src/page/alert";
import { ToastProvider } from "../../../src/part/toast";
import { SessionContext, type Session } from "../../../src/shell/session";
import { TextProvider } from "../../../src/text";

const open: Row<"alerts"> = {
  id: 7,
  what: "poison",
  kind: "resize",
  task_id: null,
  raised_at: "2026-01-01T03:00:00Z",
  text: "it kills its workers",
  severity: "critical",
  times: 3,
  last_at: "2026-01-01T03:10:00Z",
  resolved_at: null,
  resolution: null,
  is_open: true,
  seen_by: null,
  seen_at: null,
  quiet_until: null,
};
const seen = {
  ...open,
  id: 6,
  text: "it was here before",
  is_open: false,
  seen_by: "Ada",
  seen_at: "2026-01-01T02:30:00Z",
  quiet_until: "2026-01-01T03:30:00Z",
};
const over: Row<"alerts"> = {
  ...open,
  id: 5,
  what: "late",
  text: "rows waited",
  is_open: false,
  resolved_at: "2026-01-01T02:40:00Z",
  resolution: "not any more",
};
const pager: Row<"channels"> = {
  name: "pager",
  scheme: "webhook",
  severity: "critical",
  kinds: ["resize"],
  every: "10m",
  quiet: null,
  fallback: null,
};
const detail = {
  alert: open,
  deliveries: [
    {
      task_id: 41,
      channel: "pager",
      stage: "raised",
      status: "failed",
      attempts: 9,
      created_at: "2026-01-01T03:00:00Z",
      finished_at: "2026-01-01T03:20:00Z",
    },
    {
      task_id: 40,
      channel: "mail",
      stage: "raised",
      status: "succeeded",
      attempts: 1,
      created_at: "2026-01-01T03:00:00Z",
      finished_at: "2026-01-01T03:00:01Z",
    },
  ],
};
let channels: Row<"channels">[] = [];
const asked: [string, string][] = [];

function show(canAct = true) {
  const session = { name: "Ada", read_only: !canAct } as Session;
  render(
    <TextProvider>
      <SessionContext value={{ session, canAct, leave: () => undefined }}>
        <ToastProvider>
          <AlertPage />
        </ToastProvider>
      </SessionContext>
    </TextProvider>,
  );
}

beforeEach(() => {
  asked.length = 0;
  channels = [pager];
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    if (init.method === "POST") asked.push([new URL(url).pathname, String(init.body)]);
    const path = new URL(url).pathname;
    const answer = path.endsWith("channels")
      ? channels
      : path.endsWith("alerts/7")
        ? detail
        : { items: [open, seen, over], missing: [] };
    return Promise.resolve(new Response(JSON.stringify(answer)));
  });
});

afterEach(() => {
  cleanup();
  cache.clear();
  history.replaceState(null, "", "/");
  vi.unstubAllGlobals();
});

it("shows who has seen an alert, and keeps it visible", async () => {
  show();
  expect(await screen.findByText(/seen by Ada/)).toBeTruthy();
  expect(screen.getByText(/quiet until/)).toBeTruthy();
  expect(screen.getByText("it was here before").closest("tr")?.className).toBe("muted");
});

it("is acknowledged by one click, for good or for an hour, and undone by another", async () => {
  show();
  for (const name of ["Seen", "Quiet for 1 h", "Undo"]) {
    const button = await screen.findByRole("button", { name });
    await waitFor(() => expect((button as HTMLButtonElement).disabled).toBe(false));
    fireEvent.click(button);
  }
  await waitFor(() => expect(asked).toHaveLength(3));
  expect(asked.map(([path, body]) => [path.replace(/^.*alerts/, ""), body])).toEqual([
    ["/7/acknowledge", "{}"],
    ["/7/acknowledge", '{"quiet":"1h"}'],
    ["/6/recall", "undefined"],
  ]);
});

it("shows only open alerts on request", async () => {
  show();
  fireEvent.click(await screen.findByRole("button", { name: "Open" }));
  expect(screen.getByText("it kills its workers")).toBeTruthy();
  expect(screen.queryByText("it was here before")).toBeNull();
});

it("cannot be acknowledged by viewers", async () => {
  show(false);
  await screen.findByText("it kills its workers");
  expect(screen.queryByRole("button", { name: "Seen" })).toBeNull();
});

it("shows how bad an alert is, how often it was reported, and how it ended", async () => {
  show();
  const row = (await screen.findByText("it kills its workers")).closest("tr");
  expect(row?.querySelector(".tone-bad")).toBeTruthy();
  expect(row?.textContent).toContain("3");
  expect(screen.getByText(/not any more/)).toBeTruthy();
});

it("lists the channels and sends a test to one", async () => {
  show();
  fireEvent.click(await screen.findByRole("button", { name: "Send a test" }));
  await waitFor(() => expect(asked).toHaveLength(1));
  expect(asked[0]?.[0]).toMatch(/channels\/pager\/test$/);
});

it("says how to declare a channel when there is none", async () => {
  channels = [];
  show();
  expect(await screen.findByText("No channel is declared")).toBeTruthy();
});

it("lets a viewer send no test", async () => {
  show(false);
  expect(await screen.findByText("pager")).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Send a test" })).toBeNull();
});

it("shows the deliveries of an alert and retries one that failed", async () => {
  show();
  const row = (await screen.findByText("it kills its workers")).closest("tr") as HTMLElement;
  fireEvent.click(within(row).getByRole("button", { name: "Deliveries" }));
  const table = await screen.findByRole("table", { name: "Deliveries" });
  expect(within(table).getByText("mail")).toBeTruthy();
  expect(location.search).toBe("?alert=7");
  fireEvent.click(within(table).getByRole("button", { name: "Retry" }));
  await waitFor(() => expect(asked).toHaveLength(1));
  expect(asked[0]?.[0]).toMatch(/tasks\/41\/retry$/);
  const card = table.closest("section") as HTMLElement;
  fireEvent.click(within(card).getByRole("button", { name: "Close" }));
  expect(screen.queryByRole("table", { name: "Deliveries" })).toBeNull();
});

// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Answer, Row } from "../../../src/api/call";
import { cache } from "../../../src/data/cache";
import { QueuePage, nameOf } from "../../../src/page/queue";
import { QueueDetailPage } from "../../../src/page/queue/detail";
import { ConfirmProvider } from "../../../src/part/dialog";
import { ToastProvider } from "../../../src/part/toast";
import { SessionContext, type Session } from "../../../src/shell/session";
import { TextProvider } from "../../../src/text";

const product: Row<"queues"> = {
  name: "product",
  address: "amqp://broker:5672",
  kinds: ["on_product"],
  carries: [],
  waiting: 12,
  oldest_at: "2026-11-18T11:00:00Z",
  unsent: 1,
  retrying: 3,
  failed: 2,
  received_per_second: 20.5,
  sent_per_second: 0,
  answered_at: "2026-11-18T11:00:00Z",
  failed_at: null,
  error: null,
  is_tested: true,
};
const away: Row<"queues"> = {
  ...product,
  name: "visit",
  answered_at: null,
  error: "connection refused",
  failed: 0,
  unsent: 0,
  kinds: [],
  carries: ["stock_level"],
};
const detail: Answer<"queues/{name}"> = { ...product, depth: 40, problem: null };
const failed: Row<"queues/{name}/failed"> = {
  id: 7,
  kind: "on_product",
  queue: "product",
  message_id: "m-7",
  status: "failed",
  tries: 6,
  received_at: "2026-11-18T11:00:00Z",
  due_at: null,
  failed_at: "2026-11-18T11:00:00Z",
  lane: null,
  content_type: "application/json",
  headers: "{}",
  body: '{"code":"<b>bolt</b>"}',
  is_binary: false,
  error: "ValueError: no such product",
  is_cut: false,
};
const image = {
  ...failed,
  id: 8,
  message_id: "m-8",
  body: "/wA=",
  is_binary: true,
  headers: '{"tenant":"a"}',
};

let answers: Record<string, unknown>;
let posted: [string, unknown][];

function reply(address: string, request?: RequestInit): Promise<Response> {
  const path = new URL(address, "http://here/").pathname.replace("/api/", "");
  if (request?.method === "POST") {
    posted.push([path, JSON.parse(String(request.body))]);
    return Promise.resolve(new Response(JSON.stringify({ message: "", changed: 1 })));
  }
  const value = answers[path];
  if (value === undefined) return new Promise(() => undefined);
  if (value instanceof Response) return Promise.resolve(value);
  return Promise.resolve(new Response(JSON.stringify(value)));
}

function show(page = <QueuePage />, canAct = true) {
  const session = { by: "secret" } as unknown as Session;
  render(
    <TextProvider>
      <SessionContext value={{ session, canAct, leave: () => undefined }}>
        <ToastProvider>
          <ConfirmProvider>{page}</ConfirmProvider>
        </ToastProvider>
      </SessionContext>
    </TextProvider>,
  );
}

beforeEach(() => {
  answers = {};
  posted = [];
  vi.stubGlobal("fetch", reply);
  // jsdom has no modal dialogs.
  HTMLDialogElement.prototype.showModal = function () {
    this.open = true;
  };
});

afterEach(() => {
  cleanup();
  cache.clear();
  localStorage.clear();
  vi.unstubAllGlobals();
});

it("says that it loads until there is an answer", () => {
  show();

  expect(screen.getByRole("status", { name: "Loading" })).toBeDefined();
});

it("says how to consume a queue when there is none", async () => {
  answers["queues"] = [];
  show();

  expect(await screen.findByText("No queues")).toBeDefined();
});

it("says what went wrong", async () => {
  const body = JSON.stringify({ status: 503, detail: "the database is away" });
  answers["queues"] = new Response(body, { status: 503 });
  show();

  expect(await screen.findByText("the database is away")).toBeDefined();
});

it("shows what comes in, what waits, what failed, and a broker that is away", async () => {
  answers["queues"] = [product, away];
  show();

  const rows = (await screen.findAllByRole("row")).slice(1);
  const cells = rows.map((row) =>
    within(row)
      .getAllByRole("cell")
      .map((cell) => cell.textContent),
  );
  expect(cells[0]?.[0]).toContain("amqp://broker:5672");
  expect(cells.map((row) => row[1])).toEqual(["on_product", "stock_level"]);
  expect(cells[0]?.slice(3, 7)).toEqual(["20.5/s", "3", "–", "12"]);
  expect(cells[0]?.[8]).toBe("3");
  // A full queue, or a wrong password, is an answer, too.
  expect(cells[1]?.[2]).toBe("errorconnection refused");
});

it("names a queue with its address only where another one has its name", () => {
  const twin = { ...product, address: "redis://there:6379" };

  expect(nameOf(product, [product, away])).toBe("product");
  expect(nameOf(product, [product, twin])).toBe("product@amqp://broker:5672");
});

it("names the kinds whose tasks a queue carries", async () => {
  answers["queues/visit"] = { ...detail, ...away, depth: 3 };
  answers["queues/visit/failed"] = [];
  show(<QueueDetailPage name="visit" />);

  const link = await screen.findByRole("link", { name: "stock_level" });
  expect(link.getAttribute("href")).toContain("switches/stock_level");
  expect(screen.getByText("Carries")).toBeDefined();
});

it("shows the body of a failed message as text, and retries it", async () => {
  answers["queues/product"] = detail;
  answers["queues/product/failed"] = [failed, image];
  show(<QueueDetailPage name="product" />);

  fireEvent.click(await screen.findByRole("button", { name: failed.body }));
  expect(screen.getByText(/"code": "<b>bolt<\/b>"/)).toBeDefined();
  expect(screen.queryByText("Headers")).toBeNull();
  fireEvent.click(screen.getByRole("button", { name: "m-8" }));
  expect(screen.getByText(/base64/)).toBeDefined();
  expect(screen.getByRole("heading", { name: "Headers" })).toBeDefined();
  expect(screen.getByText(/"tenant": "a"/)).toBeDefined();
  for (const button of screen.getAllByRole("button", { name: "Retry" }).slice(0, 1))
    fireEvent.click(button);

  expect(await screen.findByText("Messages tried again: 1")).toBeDefined();
  expect(posted).toEqual([["queues/product/retry", { ids: [7] }]]);
});

it("does not offer to retry what is too large to be kept whole", async () => {
  answers["queues/product"] = detail;
  answers["queues/product/failed"] = [{ ...failed, is_cut: true }];
  show(<QueueDetailPage name="product" />);

  await screen.findByRole("button", { name: failed.body });
  expect(screen.queryByRole("button", { name: "Retry" })).toBeNull();
  expect(screen.getByRole("button", { name: "Drop" })).toBeDefined();
});

it("asks before it drops all failed messages", async () => {
  answers["queues/product"] = detail;
  answers["queues/product/failed"] = [failed, image];
  show(<QueueDetailPage name="product" />);

  fireEvent.click(await screen.findByRole("button", { name: "Drop all" }));
  expect(posted).toEqual([]);
  const dialog = await screen.findByRole("dialog");
  fireEvent.click(within(dialog).getByRole("button", { name: "Drop all" }));

  expect(await screen.findByText("Messages deleted: 1")).toBeDefined();
  expect(posted).toEqual([["queues/product/drop", {}]]);
});

it("offers nothing to those who only look, and says when nothing failed", async () => {
  answers["queues/product"] = { ...detail, is_tested: false };
  answers["queues/product/failed"] = [failed];
  show(<QueueDetailPage name="product" />, false);

  expect(await screen.findByRole("button", { name: failed.body })).toBeDefined();
  expect(screen.queryByRole("button", { name: "Drop" })).toBeNull();
  expect(screen.getByText("Windlass is not tested with brokers of this kind.")).toBeDefined();
});

it("speaks Chinese", async () => {
  localStorage.setItem("windlass.language", "zh");
  answers["queues"] = [product];
  show();

  expect(await screen.findByRole("heading", { name: "队列" })).toBeDefined();
});

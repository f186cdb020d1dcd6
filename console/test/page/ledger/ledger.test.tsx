// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { cache } from "../../../src/data/cache";
import { MoveDialog } from "../../../src/page/ledger/act";
import { AuditTab } from "../../../src/page/ledger/audit";
import { StockTab } from "../../../src/page/ledger/stock";
import { ToastProvider } from "../../../src/part/toast";
import { SessionContext, type Session } from "../../../src/shell/session";
import { TextProvider } from "../../../src/text";

const session = { role: "operator" } as Session;
const asked: { path: string; body: { id: string; lines: unknown } | null }[] = [];
let answers: (path: string) => Response;

function json(body: unknown, status = 200): Response {
  return new Response(JSON.stringify(body), { status });
}

function show(part: React.ReactNode, canAct = true) {
  render(
    <TextProvider>
      <SessionContext value={{ session, canAct, leave: () => undefined }}>
        <ToastProvider>{part}</ToastProvider>
      </SessionContext>
    </TextProvider>,
  );
}

beforeEach(() => {
  asked.length = 0;
  HTMLDialogElement.prototype.showModal = function () {
    this.open = true;
  };
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    const path = new URL(url).pathname;
    asked.push({ path, body: init.body ? JSON.parse(String(init.body)) : null });
    return Promise.resolve(answers(path));
  });
});

afterEach(() => {
  cleanup();
  cache.clear();
  vi.unstubAllGlobals();
});

describe("restocking", () => {
  const made = { id: "x", movement: "restock", lines: [{ sku: "bolt", quantity: 5 }] };

  function fill(quantity = "5") {
    fireEvent.change(screen.getByLabelText("SKU, line 1"), { target: { value: "bolt" } });
    fireEvent.change(screen.getByLabelText("Quantity, line 1"), { target: { value: quantity } });
    return screen.getByRole("button", { name: "Restock", hidden: true });
  }

  it("takes effect once however often the user clicks, and says what it did", async () => {
    answers = () => json(made, 201);
    const onClose = vi.fn();
    show(<MoveDialog move="restock" shard="2" onClose={onClose} />);
    const button = fill();

    fireEvent.click(button);
    fireEvent.click(button);

    await waitFor(() => expect(onClose).toHaveBeenCalled());
    expect(screen.getByText("5 came in.")).toBeTruthy();
    expect(new Set(asked.map((each) => each.body?.id)).size).toBe(1);
    expect(asked[0]?.body?.lines).toEqual([{ sku: "bolt", quantity: 5 }]);
  });

  it("keeps its id when there was no answer, and takes a new one after a refusal", async () => {
    const statuses = [503, 422, 201];
    answers = () => json({ title: "x", detail: "not now", ...made }, statuses.shift() ?? 500);
    show(<MoveDialog move="restock" shard={undefined} onClose={() => undefined} />);
    const button = fill();

    for (const count of [1, 2, 3]) {
      await waitFor(() => expect((button as HTMLButtonElement).disabled).toBe(false));
      fireEvent.click(button);
      await waitFor(() => expect(asked).toHaveLength(count));
    }

    const ids = asked.map((each) => each.body?.id);
    expect(ids[0]).toBe(ids[1]);
    expect(ids[2]).not.toBe(ids[1]);
  });

  it("is not possible with a wrong quantity", () => {
    show(<MoveDialog move="restock" shard={undefined} onClose={() => undefined} />);
    expect((fill("0") as HTMLButtonElement).disabled).toBe(true);
  });
});

describe("the list of stock", () => {
  const evil = "<img src=x onerror=alert(1)>";
  const row = { sku: evil, available: 0, received: 3, deducted: 3, returned: 0 };

  it("shows text from users as text, and what is sold out", async () => {
    answers = (path) =>
      path.endsWith("/stock") ? json({ items: [row], next: null, looked_at: 1 }) : json([]);
    show(<StockTab />);
    expect(await screen.findByText(evil)).toBeTruthy();
    expect(document.querySelector("img")).toBeNull();
    expect(screen.getAllByText("sold out")).toHaveLength(2);
  });

  it("says what to do when it is empty", async () => {
    answers = (path) =>
      path.endsWith("/stock") ? json({ items: [], next: null, looked_at: 0 }) : json([]);
    show(<StockTab />);
    expect(await screen.findByText("No stock")).toBeTruthy();
  });

  it("says what went wrong", async () => {
    answers = () => json({ title: "Down", detail: "the database does not answer" }, 503);
    show(<StockTab />);
    expect((await screen.findByRole("alert")).textContent).toContain("does not answer");
  });

  it("has no buttons for viewers", () => {
    answers = () => json([]);
    show(<StockTab />, false);
    expect(screen.queryByRole("button", { name: "Restock" })).toBeNull();
  });
});

describe("the audit", () => {
  async function run(found: { ok: boolean; problems: string[] }) {
    answers = (path) => (path.endsWith("/ledger/audit") ? json(found) : json([]));
    show(<AuditTab />);
    fireEvent.click(await screen.findByRole("button", { name: "Check the books" }));
  }

  it("says that the books balance", async () => {
    await run({ ok: true, problems: [] });
    expect(await screen.findByText("The books balance")).toBeTruthy();
  });

  it("lists what it found", async () => {
    await run({ ok: false, problems: ["stock 'bolt': 11 available"] });
    expect((await screen.findByRole("alert")).textContent).toContain("stock 'bolt': 11 available");
  });
});

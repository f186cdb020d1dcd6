// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Problem } from "../../../src/api/client";
import { cache } from "../../../src/data/cache";
import { MoveDialog } from "../../../src/page/ledger/act";
import { AuditTab } from "../../../src/page/ledger/audit";
import { freshId, linesOf, quantityOf, returnOf } from "../../../src/page/ledger/line";
import { isRefusal } from "../../../src/page/ledger/once";
import { refusalText } from "../../../src/page/ledger/part";
import { StockTab } from "../../../src/page/ledger/stock";
import { balancesOf, pathsOf } from "../../../src/part/picture/balance-shape";
import { ToastProvider } from "../../../src/part/toast";
import { SessionContext, type Session } from "../../../src/shell/session";
import { TextProvider } from "../../../src/text";

describe("quantities", () => {
  it("are whole, from 1 on, and not too many", () => {
    expect(["1", " 12 ", "1000000000000"].map((text) => quantityOf(text))).toEqual([1, 12, 1e12]);
    const wrong = ["", "0", "-1", "1.5", "1e3", "x", "1000000000001", "9".repeat(20)];
    expect(wrong.map((text) => quantityOf(text))).toEqual(wrong.map(() => null));
  });

  it("of an adjustment have a sign", () => {
    expect(["-2", "+5", "0"].map((text) => quantityOf(text, true))).toEqual([-2, 5, null]);
  });
});

describe("lines", () => {
  it("leave out what is empty, and are none if one is not whole", () => {
    const empty = { sku: "", quantity: "" };
    expect(linesOf([{ sku: "bolt", quantity: "3" }, empty])).toEqual([
      { sku: "bolt", quantity: 3 },
    ]);
    expect(linesOf([{ sku: "bolt", quantity: "" }])).toBeNull();
    expect(linesOf([{ sku: "", quantity: "3" }])).toBeNull();
    expect(linesOf([empty])).toBeNull();
  });

  it("of a return are never more than is left", () => {
    const left = [{ sku: "bolt", quantity: 5, returned: 2 }];
    expect(returnOf(left, { bolt: "3" })).toEqual([{ sku: "bolt", quantity: 3 }]);
    expect(returnOf(left, { bolt: "4" })).toBeNull();
    expect(returnOf(left, { bolt: "0" })).toBeNull();
  });
});

describe("ids", () => {
  it("are never the same", () => {
    const ids = new Set(Array.from({ length: 100 }, () => freshId("restock")));
    expect(ids.size).toBe(100);
    expect([...ids][0]).toMatch(/^restock-[0-9a-f]{12}$/);
  });

  it("are used up by a refusal, and not where there was no answer", () => {
    const asked = [404, 409, 422, 0, 500, 503].map((status) =>
      isRefusal(new Problem(status, "", "")),
    );
    expect(asked).toEqual([true, true, true, false, false, false]);
  });
});

describe("the line of a balance", () => {
  it("begins before the first change", () => {
    const steps = [
      { quantity: 10, balance: 10 },
      { quantity: -4, balance: 6 },
    ];
    expect(balancesOf(steps)).toEqual([0, 10, 6]);
    const { line, area } = pathsOf(
      [0, 10, 6],
      (x) => x,
      String as unknown as (y: number) => number,
    );
    expect(line).toBe("M0 0H1V10H2V6H3");
    expect(area).toBe("M0 0H1V10H2V6H3V0H0Z");
  });

  it("is nothing without changes", () => {
    expect(balancesOf([])).toEqual([]);
    expect(pathsOf([], Number, Number)).toEqual({ line: "", area: "" });
  });
});

it("a refusal is told with its facts", () => {
  expect(refusalText({ error: "OutOfStock", sku: "<b>", wanted: 2 })).toBe(
    "OutOfStock · sku <b> · wanted 2",
  );
});

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

  it("has one effect however often one clicks, and says what it did", async () => {
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

  it("keeps its id where there was no answer, and takes a new one after a refusal", async () => {
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

  it("is not to be had with a wrong quantity", () => {
    show(<MoveDialog move="restock" shard={undefined} onClose={() => undefined} />);
    expect((fill("0") as HTMLButtonElement).disabled).toBe(true);
  });
});

describe("the list of stock", () => {
  const evil = "<img src=x onerror=alert(1)>";
  const row = { sku: evil, available: 0, received: 3, deducted: 3, returned: 0 };

  it("shows what users gave as text, and what is sold out", async () => {
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

  it("has no buttons for those who only look", () => {
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

// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Row } from "../../../src/api/call";
import { cache } from "../../../src/data/cache";
import { TokenPage } from "../../../src/page/token";
import { ConfirmProvider } from "../../../src/part/dialog";
import { ToastProvider } from "../../../src/part/toast";
import { SessionContext, type Session } from "../../../src/shell/session";
import { TextProvider } from "../../../src/text";

const active: Row<"tokens"> = {
  name: "deploy",
  role: "producer",
  prefix: "windlass_0123456789ab",
  state: "active",
  created_at: "2026-01-01T03:00:00Z",
  created_by: "Ada",
  expires_at: null,
  last_used_at: null,
  revoked_at: null,
  revoked_by: null,
};
const revoked: Row<"tokens"> = {
  ...active,
  name: "old",
  prefix: "windlass_ba9876543210",
  state: "revoked",
  revoked_at: "2026-01-02T03:00:00Z",
  revoked_by: "Grace",
};
const TEXT = "windlass_0123456789ab_secret";
const asked: [string, string][] = [];
let answer: () => Promise<Response>;

function show(role: Session["role"] = "admin") {
  const session = { name: "Ada", role, read_only: role === "viewer" } as Session;
  render(
    <TextProvider>
      <SessionContext value={{ session, canAct: role !== "viewer", leave: () => undefined }}>
        <ToastProvider>
          <ConfirmProvider>
            <TokenPage />
          </ConfirmProvider>
        </ToastProvider>
      </SessionContext>
    </TextProvider>,
  );
}

/** The button of a dialog has the same word as the one that opened it. */
function lastButton(name: string): HTMLButtonElement {
  return screen
    .getAllByRole<HTMLButtonElement>("button", { name })
    .slice(-1)[0] as HTMLButtonElement;
}

function json(value: unknown, status = 200): Promise<Response> {
  return Promise.resolve(new Response(JSON.stringify(value), { status }));
}

beforeEach(() => {
  asked.length = 0;
  HTMLDialogElement.prototype.showModal = function () {
    this.open = true;
  };
  answer = () => json({ items: [active, revoked], missing: [], next: null });
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    if (init.method !== "POST") return answer();
    asked.push([new URL(url).pathname.replace(/^.*api/, ""), String(init.body)]);
    const { name, role, prefix, expires_at } = active;
    return json({ token: TEXT, name, role, prefix, expires_at });
  });
});

afterEach(() => {
  cleanup();
  cache.clear();
  vi.unstubAllGlobals();
});

it("shows a skeleton while it loads", () => {
  answer = () => new Promise(() => undefined);
  show();
  expect(screen.getByRole("status", { name: "Loading" })).toBeTruthy();
});

it("says what to do without any token", async () => {
  answer = () => json({ items: [], missing: [], next: null });
  show();
  expect(await screen.findByText("No tokens yet")).toBeTruthy();
  expect(screen.getByText(/Create one for each person/)).toBeTruthy();
});

it("says what went wrong, and tries again", async () => {
  answer = () => json({ title: "Gone", detail: "the database does not answer" }, 503);
  show();
  expect(await screen.findByText("the database does not answer")).toBeTruthy();
  answer = () => json({ items: [active], missing: [], next: null });
  fireEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(await screen.findByText("deploy")).toBeTruthy();
});

it("shows roles, states and who revoked what, and names missing shards", async () => {
  answer = () => json({ items: [active, revoked], missing: ["shard-2"], next: null });
  show();
  const row = (await screen.findByText("old")).closest("tr");
  expect(row?.className).toBe("muted");
  expect(row?.textContent).toContain("Grace");
  expect(screen.getByText("deploy").closest("tr")?.textContent).toContain("producer");
  expect(screen.getByText(/No answer from shard-2/)).toBeTruthy();
});

it("creates a token, shows it once, and forgets it", async () => {
  show();
  await screen.findByText("deploy");
  fireEvent.click(screen.getByRole("button", { name: "Create token" }));
  const send = () => lastButton("Create token");
  expect(send().disabled).toBe(true);
  fireEvent.change(screen.getByLabelText(/^Name/), { target: { value: "importer" } });
  fireEvent.click(screen.getByRole("button", { name: "producer" }));
  fireEvent.click(screen.getByRole("button", { name: "1 year" }));
  fireEvent.click(send());
  expect(await screen.findByText(TEXT)).toBeTruthy();
  expect(asked).toEqual([["/tokens", '{"name":"importer","role":"producer","expires":"365d"}']]);
  fireEvent.click(screen.getByRole("button", { name: "I have kept it" }));
  expect(screen.queryByText(TEXT)).toBeNull();
});

it("asks before it revokes", async () => {
  show();
  fireEvent.click(await screen.findByRole("button", { name: "Revoke" }));
  expect(await screen.findByText("Revoke deploy?")).toBeTruthy();
  expect(asked).toEqual([]);
  fireEvent.click(lastButton("Revoke"));
  await waitFor(() => expect(asked).toEqual([["/tokens/deploy/revoke", "undefined"]]));
});

it("lets only admins create and revoke", async () => {
  for (const role of ["viewer", "operator"] as const) {
    show(role);
    await screen.findByText("deploy");
    expect(screen.queryByRole("button", { name: "Create token" })).toBeNull();
    expect(screen.queryByRole("button", { name: "Revoke" })).toBeNull();
    cleanup();
  }
});

// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { cache } from "../../../src/data/cache";
import { PauseCard, type Pause } from "../../../src/page/switch/pause";
import { ToastProvider } from "../../../src/part/toast";
import { SessionContext, type SessionState } from "../../../src/shell/session";
import { TextProvider } from "../../../src/text";

const everything: Pause = {
  name: "*",
  group: null,
  kinds: ["mail", "offer", "price"],
  off: false,
  reason: null,
  who: null,
  since: null,
  until: null,
  held_back: null,
  held: null,
};
const sale: Pause = {
  ...everything,
  name: "group:sale",
  group: "sale",
  kinds: ["offer"],
  off: true,
  who: "ada",
  reason: "<i>too cheap</i>",
  since: "2026-01-08T14:10:00Z",
  until: "2126-01-08T14:10:00Z",
};

let answer: (path: string) => Promise<Response>;
const sent: { path: string; body: unknown }[] = [];

function answers(rows: readonly Pause[]) {
  answer = () => Promise.resolve(new Response(JSON.stringify(rows)));
}

function show({ canAct = true } = {}) {
  const session = { canAct, leave: () => undefined } as unknown as SessionState;
  render(
    <TextProvider>
      <ToastProvider>
        <SessionContext value={session}>
          <PauseCard />
        </SessionContext>
      </ToastProvider>
    </TextProvider>,
  );
}

beforeEach(() => {
  sent.length = 0;
  HTMLDialogElement.prototype.showModal = function open() {
    this.setAttribute("open", "");
  };
  vi.stubGlobal("fetch", (path: string, given?: RequestInit) => {
    if (given?.method === "POST") {
      sent.push({ path, body: JSON.parse(given.body as string) });
    }
    return answer(path);
  });
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

it("says what went wrong and offers to try again", async () => {
  answer = () =>
    Promise.resolve(new Response(JSON.stringify({ detail: "it is away" }), { status: 503 }));
  show();

  expect(await screen.findByText("it is away")).toBeDefined();
});

it("shows everything and each group, with who, why and until when", async () => {
  answers([everything, sale]);
  show();

  const [all, group] = await screen.findAllByRole("listitem");
  expect(all?.textContent).toContain("Everything3 kinds");
  expect(all?.textContent).toContain("on");
  expect(group?.textContent).toContain("Group sale1 kind");
  expect(group?.textContent).toMatch(/paused.*ada · .* · resumes in/);
  expect(group?.textContent).toContain("<i>too cheap</i>");
});

it("asks before it pauses everything, with a reason and an end", async () => {
  answers([everything]);
  show();

  fireEvent.click(await screen.findByRole("button", { name: "Pause everything" }));
  const dialog = within(screen.getByRole("dialog", { name: "Pause Everything?" }));
  fireEvent.change(dialog.getByLabelText("Reason"), { target: { value: "moving" } });
  fireEvent.change(dialog.getByLabelText(/^Until/), { target: { value: " 06:00 " } });
  fireEvent.click(dialog.getByRole("button", { name: "Pause" }));

  await waitFor(() => expect(sent).toHaveLength(1));
  expect(sent[0]?.path).toMatch(/api\/pause$/);
  expect(sent[0]?.body).toEqual({ reason: "moving", until: "06:00", group: null });
});

it("resumes a group without asking", async () => {
  answers([everything, sale]);
  show();

  fireEvent.click(await screen.findByRole("button", { name: "Resume" }));

  await waitFor(() => expect(sent).toHaveLength(1));
  expect(sent[0]?.path).toMatch(/api\/resume$/);
  expect(sent[0]?.body).toEqual({ group: "sale" });
});

it("has no buttons for those who may only look", async () => {
  answers([everything, sale]);
  show({ canAct: false });

  await screen.findAllByRole("listitem");
  expect(screen.queryAllByRole("button")).toEqual([]);
});

// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import type { ReactNode } from "react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Answer } from "../../../src/api/call";
import { cache } from "../../../src/data/cache";
import { FlowPage } from "../../../src/page/flow/list";
import type { FlowNode, FlowRun } from "../../../src/page/flow/progress";
import { NodePanel } from "../../../src/page/flow/run/node-panel";
import { StartDialog } from "../../../src/page/flow/start";
import { ConfirmProvider } from "../../../src/part/dialog";
import { ToastProvider } from "../../../src/part/toast";
import { SessionContext } from "../../../src/shell/session";
import { TextProvider } from "../../../src/text";

interface Reply {
  status?: number;
  body: unknown;
}

const answers = new Map<string, Reply>();
const sent: { path: string; body: unknown }[] = [];

beforeEach(() => {
  HTMLDialogElement.prototype.showModal = function () {
    this.open = true;
  };
  vi.stubGlobal("scrollTo", () => undefined);
  vi.stubGlobal("fetch", (url: string, init: RequestInit = {}) => {
    const path = new URL(url).pathname.replace("/api/", "") + new URL(url).search;
    if (init.method === "POST") sent.push({ path, body: JSON.parse(String(init.body)) });
    const answer = answers.get(path);
    // A path without an answer keeps loading.
    if (!answer) return new Promise(() => undefined);
    return Promise.resolve(
      new Response(JSON.stringify(answer.body), { status: answer.status ?? 200 }),
    );
  });
});

afterEach(() => {
  cleanup();
  cache.clear();
  answers.clear();
  sent.length = 0;
  vi.unstubAllGlobals();
});

function show(page: ReactNode, canAct = true) {
  const session = { name: "ada", role: "operator", token: "t" };
  render(
    <SessionContext value={{ session: session as never, canAct, leave: () => undefined }}>
      <TextProvider>
        <ToastProvider>
          <ConfirmProvider>{page}</ConfirmProvider>
        </ToastProvider>
      </TextProvider>
    </SessionContext>,
  );
}

const RUN: FlowRun = {
  id: 7,
  flow: "nightly",
  key: "2026-11-16",
  status: "running",
  nodes: 10,
  left: 4,
  template: null,
  version: null,
  created_at: "2026-11-16T10:00:00Z",
  finished_at: null,
  error: null,
};

describe("the list of runs", () => {
  it("has a loading face", () => {
    show(<FlowPage />);
    expect(screen.getByRole("status", { name: "Loading" })).toBeTruthy();
  });

  it("has an empty face that says what to do", async () => {
    answers.set("flows", { body: { items: [], next: null, missing: [] } });
    show(<FlowPage />);
    expect(await screen.findByText("No runs")).toBeTruthy();
  });

  it("has an error face", async () => {
    answers.set("flows", { status: 503, body: { title: "Down", detail: "no answer" } });
    show(<FlowPage />);
    expect((await screen.findByRole("alert")).textContent).toContain("no answer");
  });

  it("has a full face, with what is left, and a next page", async () => {
    answers.set("flows", { body: { items: [RUN], next: "5", missing: [] } });
    show(<FlowPage />);
    expect(await screen.findByText("6 / 10")).toBeTruthy();
    expect(screen.getByRole("link", { name: /nightly/ }).getAttribute("href")).toContain("flows/7");
    fireEvent.click(screen.getByRole("button", { name: "Next page" }));
    expect(location.search).toBe("?after=5");
    history.replaceState(null, "", "/");
  });

  it("offers no actions to viewers", async () => {
    answers.set("flows", { body: { items: [RUN], next: null, missing: [] } });
    show(<FlowPage />, false);
    await screen.findByText("6 / 10");
    expect(screen.queryByRole("button", { name: "Start a flow" })).toBeNull();
  });
});

describe("starting a flow", () => {
  it("sends each typed value as its type", async () => {
    const takes = [
      { name: "day", type: "str", required: true },
      { name: "copies", type: "int", required: false },
      { name: "mode", type: "str", required: false },
    ];
    const body = [{ name: "nightly", version: null, summary: "A night.", arguments: takes }];
    answers.set("flows/startable", { body });
    answers.set("flows", { body: { id: 9, message: "", changed: 1 } });
    show(<StartDialog onClose={() => undefined} />);
    fireEvent.change(await screen.findByLabelText(/day/), { target: { value: "7" } });
    fireEvent.change(screen.getByLabelText(/copies/), { target: { value: "2" } });
    fireEvent.click(screen.getByText("Start"));
    await waitFor(() => expect(sent).toHaveLength(1));
    expect(sent[0]?.body).toEqual({ flow: "nightly", arguments: { day: "7", copies: 2 } });
    await waitFor(() => expect(location.pathname).toBe("/flows/9"));
    history.replaceState(null, "", "/");
  });
});

describe("a node", () => {
  const node: FlowNode = {
    id: 8,
    name: "train",
    kind: "train",
    status: "failed",
    rule: "all_success",
    slots: 2,
    open_slots: 0,
    attempt: 1,
    due_at: null,
    started_at: "2026-11-16T10:00:00Z",
    finished_at: "2026-11-16T10:00:03Z",
    error: "MemoryError: <b>96 GB</b>",
    is_skipped: false,
  };
  const detail: Answer<"flows/{number}/node"> = {
    node,
    when: null,
    arguments: '{"rows":{"$result":"clean"}}',
    result: null,
    handle: null,
    failures: [],
    waits_for: [{ ...node, id: 6, name: "clean", status: "succeeded", error: null }],
    before: [],
  };

  it("shows its error as text, and asks before it is skipped", async () => {
    answers.set("flows/7/node?name=train", { body: detail });
    answers.set("flows/7/skip", { body: { message: "", changed: 1 } });
    show(<NodePanel run={7} name="train" isWhole />);
    expect(await screen.findByText("MemoryError: <b>96 GB</b>")).toBeTruthy();
    fireEvent.click(screen.getByRole("button", { name: "Skip the node" }));
    expect(sent).toEqual([]);
    expect(screen.getByText("Skip train?")).toBeTruthy();
    fireEvent.click(screen.getAllByText("Skip the node").at(-1) as HTMLElement);
    await waitFor(() => expect(sent[0]?.body).toEqual({ node: "train" }));
  });

  it("links to the nodes that it waits for", async () => {
    answers.set("flows/7/node?name=train", { body: detail });
    show(<NodePanel run={7} name="train" isWhole />);
    fireEvent.click(await screen.findByRole("button", { name: /clean/ }));
    expect(location.search).toBe("?node=clean");
    history.replaceState(null, "", "/");
  });
});

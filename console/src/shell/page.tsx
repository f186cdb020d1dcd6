/** The pages: their places in the menu, their letters, and what their addresses show. */
import type { ReactNode } from "react";
import type { IconName } from "../part/icon";
import { AboutPage } from "../page/about";
import { AlertPage } from "../page/alert";
import { AuditPage } from "../page/audit";
import { ControlPage } from "../page/control";
import { ControlDetailPage } from "../page/control/detail";
import { CronPage } from "../page/cron";
import { CronDetailPage } from "../page/cron/detail";
import { DownstreamPage } from "../page/downstream";
import { DownstreamDetailPage } from "../page/downstream/detail";
import { flowDetail, flowList } from "../page/flow";
import { ledgerDetail, ledgerList } from "../page/ledger";
import { OverviewPage } from "../page/overview";
import { PromisePage } from "../page/promise";
import { QueuePage } from "../page/queue";
import { QueueDetailPage } from "../page/queue/detail";
import { RingPage } from "../page/ring";
import { RollingPage } from "../page/rolling";
import { RollingDetailPage } from "../page/rolling/detail";
import { SweepPage } from "../page/sweep";
import { SweepDetailPage } from "../page/sweep/detail";
import { SwitchPage } from "../page/switch";
import { SwitchDetailPage } from "../page/switch/detail";
import { TaskPage } from "../page/task";
import { NewTaskPage } from "../page/task/new";
import { TaskDetailPage } from "../page/task/detail";
import { TokenPage } from "../page/token";
import type { Dictionary } from "../text/en";

export type PageName = keyof Dictionary["menu"];

interface Entry {
  readonly name: PageName;
  /** The first part of its path; none is the first page. */
  readonly path: string;
  /** `g` and then this letter leads to it. */
  readonly letter: string;
  readonly icon: IconName;
  readonly group: "watch" | "work" | "rule";
  readonly list: () => ReactNode;
  readonly detail?: (parts: readonly string[]) => ReactNode;
}

export const PAGES: readonly Entry[] = [
  {
    name: "overview",
    path: "",
    letter: "o",
    icon: "overview",
    group: "watch",
    list: () => <OverviewPage />,
  },
  {
    name: "alerts",
    path: "alerts",
    letter: "e",
    icon: "alert",
    group: "watch",
    list: () => <AlertPage />,
  },
  {
    name: "promises",
    path: "promises",
    letter: "p",
    icon: "promise",
    group: "watch",
    list: () => <PromisePage />,
  },
  {
    name: "tasks",
    path: "tasks",
    letter: "t",
    icon: "task",
    group: "work",
    list: () => <TaskPage />,
    detail: ([id = ""]) => (id === "new" ? <NewTaskPage /> : <TaskDetailPage key={id} id={id} />),
  },
  {
    name: "rolling",
    path: "rolling",
    letter: "l",
    icon: "rolling",
    group: "work",
    list: () => <RollingPage />,
    detail: ([kind = ""]) => <RollingDetailPage key={kind} kind={kind} />,
  },
  {
    name: "sweeps",
    path: "sweeps",
    letter: "s",
    icon: "sweep",
    group: "work",
    list: () => <SweepPage />,
    detail: ([kind = ""]) => <SweepDetailPage key={kind} kind={kind} />,
  },
  {
    name: "flows",
    path: "flows",
    letter: "f",
    icon: "flow",
    group: "work",
    list: () => flowList(),
    detail: flowDetail,
  },
  {
    name: "crons",
    path: "crons",
    letter: "h",
    icon: "clock",
    group: "work",
    list: () => <CronPage />,
    detail: ([kind = ""]) => <CronDetailPage key={kind} kind={kind} />,
  },
  {
    name: "control",
    path: "control",
    letter: "c",
    icon: "control",
    group: "work",
    list: () => <ControlPage />,
    detail: ([name = ""]) => <ControlDetailPage key={name} name={name} />,
  },
  {
    name: "ledger",
    path: "ledger",
    letter: "d",
    icon: "ledger",
    group: "work",
    list: ledgerList,
    detail: ledgerDetail,
  },
  {
    name: "queues",
    path: "queues",
    letter: "q",
    icon: "queue",
    group: "work",
    list: () => <QueuePage />,
    detail: ([name = ""]) => <QueueDetailPage key={name} name={name} />,
  },
  {
    name: "switches",
    path: "switches",
    letter: "w",
    icon: "switch",
    group: "rule",
    list: () => <SwitchPage />,
    detail: ([kind = ""]) => <SwitchDetailPage key={kind} kind={kind} />,
  },
  {
    name: "downstreams",
    path: "downstreams",
    letter: "n",
    icon: "downstream",
    group: "rule",
    list: () => <DownstreamPage />,
    detail: ([name = ""]) => <DownstreamDetailPage key={name} name={name} />,
  },
  {
    name: "ring",
    path: "ring",
    letter: "r",
    icon: "ring",
    group: "rule",
    list: () => <RingPage />,
  },
  {
    name: "audit",
    path: "audit",
    letter: "a",
    icon: "audit",
    group: "rule",
    list: () => <AuditPage />,
  },
  {
    name: "tokens",
    path: "tokens",
    letter: "k",
    icon: "key",
    group: "rule",
    list: () => <TokenPage />,
  },
  {
    name: "about",
    path: "about",
    letter: "i",
    icon: "settings",
    group: "rule",
    list: () => <AboutPage />,
  },
];

export function entryOf(parts: readonly string[]): Entry | undefined {
  return PAGES.find((entry) => entry.path === (parts[0] ?? ""));
}

/** What an address shows; undefined if there is no such page. */
export function contentOf(parts: readonly string[]): ReactNode | undefined {
  const entry = entryOf(parts);
  if (!entry) return undefined;
  if (parts.length < 2) return entry.list();
  return entry.detail?.(parts.slice(1));
}

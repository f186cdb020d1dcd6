// Made by `make console-types` from the OpenAPI document of the API.

/** Versions, schema and health. `findings` are what `windlass check` says of the kinds. */
export interface About {
  version: string; python: string; packages: Readonly<Record<string, string>>; is_built: boolean;
  now: string | null; databases: readonly DatabaseOut[]; findings: readonly FindingOut[];
}

/** For how long it and all of its sort and kind are quiet; null: until there is a new one. */
export interface Acknowledge {
  quiet?: string | null;
}

/** One SKU and how many more, or less, there are of it. */
export interface AdjustLineBody {
  sku: string; quantity: number;
}

/** What a count found. */
export interface AdjustmentBody {
  id: string; lines: readonly AdjustLineBody[]; reason?: string;
}

/** An alert. It is open until somebody has seen it, or again after `quiet_until`. */
export interface AlertOut {
  id: number; what: string; kind: string | null; task_id: number | null; raised_at: string;
  text: string; is_open: boolean; seen_by: string | null; seen_at: string | null;
  quiet_until: string | null;
}

/** Buckets from `begin` up to and without `end`; there are 256 in all. */
export interface ArcOut {
  begin: number; end: number;
}

/** An argument of a handler. */
export interface ArgumentOut {
  name: string; type: string; required: boolean;
}

/** An item that failed and was set aside. `key` is what `retry` takes; `shown` is for people. */
export interface AsideOut {
  key: string; shown: string; error: string; round: number; failed_at: string; tries: number;
}

/** Whether the ranges tile the key space. */
export interface AuditOut {
  ok: boolean; problems: readonly string[];
}

/** What an audit found. */
export interface AuditView {
  ok: boolean; problems: readonly string[];
}

/** How many items were last visited so long ago; the last bar has no end. */
export interface BarOut {
  from_seconds: number; to_seconds: number | null; count: number; is_late: boolean;
}

/** Which tasks to end; `next` goes on where a call ended. */
export interface BulkCancel {
  status: "waiting" | "running" | "external"; kind?: string | null; key?: string | null;
  created_after?: string | null; created_before?: string | null; reason?: string;
  next?: string | null;
}

/** What was done so far; with `next`, call again with it to do the rest. */
export interface BulkDone {
  message: string; changed: number; skipped: number; next: string | null;
}

/** Which failed or cancelled tasks to let run again; `next` goes on where a call ended. */
export interface BulkRetry {
  status: "failed" | "cancelled"; kind?: string | null; key?: string | null;
  created_after?: string | null; created_before?: string | null; next?: string | null;
}

/** Why, for those who look later. */
export interface Cancel {
  reason?: string;
}

/** Whether a template can be saved; what is wrong with it, and what a start is to be given. */
export interface Checked {
  ok: boolean; problems: readonly string[]; arguments: readonly string[];
}

/** Which items. */
export interface Codes {
  codes: readonly string[];
}

/** A deduction that is for good. */
export interface ConfirmationView {
  deduction: string; confirmed_at: string;
}

/** A database; `server` is its version, `schema_found` that of its tables. */
export interface DatabaseOut {
  name: string; dialect: string; server: string | null; schema_found: string | null;
  schema_needed: string; milliseconds: number | null; problem: string | null;
}

/** What the code declares; what holds now may have been set otherwise. */
export interface DeclaredOut {
  summary: string; arguments: readonly ArgumentOut[]; retries: number; timeout: string | null;
  rate: string | null; window: string | null; concurrency: number | null; priority: number;
  breaker: string | null;
}

/** A deduction; with a hold, such as "15m", it comes back unless it is confirmed. */
export interface DeductionBody {
  id: string; lines: readonly LineBody[]; hold?: string | null;
}

/** One SKU of a deduction, and how much of it has come back. */
export interface DeductionLineOut {
  sku: string; quantity: number; returned: number;
}

/** One SKU of a deduction, and how much of it has come back. */
export interface DeductionLineView {
  sku: string; quantity: number; returned: number;
}

/** A deduction with its first lines; `refusal` is the error and its facts. */
export interface DeductionOut {
  id: string; status: "held" | "deducted" | "refused" | "voided" | "lapsed"; created_at: string;
  hold_until: string | null; confirmed_at: string | null;
  refusal: Readonly<Record<string, unknown>> | null; lines: readonly DeductionLineOut[];
  has_more_lines: boolean;
}

/** Deductions, newest first; those that begin with a prefix, by their ids. */
export interface DeductionPage {
  next: string | null; looked_at: number; items: readonly DeductionOut[];
}

/** A deduction. */
export interface DeductionView {
  id: string; status: "held" | "deducted" | "refused" | "voided" | "lapsed";
  lines: readonly DeductionLineView[]; created_at: string; hold_until: string | null;
  confirmed_at: string | null; refusal: OutOfStockView | UnknownSkuView | null;
}

/** What somebody did; `detail` is JSON. `ok` is null if it never came to an end. */
export interface DeedOut {
  id: number; acted_at: string; who: string; via: string; address: string | null; action: string;
  about: string | null; detail: string | null; ok: boolean | null; outcome: string | null;
}

/** What an action did, in words, and how many rows it changed. */
export interface Done {
  message: string; changed: number;
}

/** One change of what is available; in a list of one SKU, `balance` is what there was then. */
export interface EntryOut {
  id: number; sku: string; quantity: number;
  movement: "restock" | "adjust" | "deduct" | "return" | "void" | "lapse"; reference: string;
  return_id: string | null; created_at: string; balance: number | null;
}

/** Entries, newest first. */
export interface EntryPage {
  next: string | null; looked_at: number; items: readonly EntryOut[];
}

/** One change of what is available. */
export interface EntryView {
  id: number; sku: string; quantity: number; movement: Movement; reference: string;
  return_id: string | null; created_at: string;
}

/** A graph as text. */
export interface ExportOut {
  format: "mermaid" | "dot" | "json"; text: string;
}

/** An error of a task. */
export interface FailureOut {
  id: number; task_id: number; kind: string; attempt: number; failed_at: string; error: string;
  trace: string;
}

/** Something that is wrong, or may be. */
export interface FindingOut {
  level: "error" | "warning"; about: string; text: string;
}

/** Why, for those who look later. */
export interface FlowCancel {
  reason?: string;
}

/** A run and its graph. If that is too large to be drawn, only some nodes are in it. */
export interface FlowDetail {
  run: FlowRunOut; arguments: string; counts: Readonly<Record<string, number>>; total: number;
  is_whole: boolean; nodes: readonly FlowNodeOut[]; edges: readonly (readonly [string, string])[];
  inside: readonly (readonly [string, string])[];
}

/** Changes to a run, made together or not at all. What has begun cannot be changed. */
export interface FlowEdit {
  add?: readonly FlowNodeNew[]; link?: readonly (readonly [string, string])[];
  unlink?: readonly (readonly [string, string])[];
}

/** A node with everything: `arguments` and `result` are JSON. */
export interface FlowNodeDetail {
  node: FlowNodeOut; when: string | null; arguments: string; result: string | null;
  handle: string | null; failures: readonly FailureOut[]; waits_for: readonly FlowNodeOut[];
  before: readonly FlowNodeOut[];
}

/** A node to add to a run. In arguments `{"$result": "load"}` stands for what load returned. */
export interface FlowNodeNew {
  name: string; kind: string; args?: readonly unknown[];
  kwargs?: Readonly<Record<string, unknown>>; after?: readonly string[];
  trigger?: "all_success" | "all_done" | "any_success"; when?: string | null;
}

/** A node of a run. It waits for `open_slots` of its `slots`; `rule` says what fills them. */
export interface FlowNodeOut {
  id: number; name: string; kind: string;
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled";
  rule: string; slots: number; open_slots: number; attempt: number; due_at: string | null;
  started_at: string | null; finished_at: string | null; error: string | null;
  is_skipped: boolean;
}

/** Nodes in the order of their names; `next` is the `after` of what follows, null at the end. */
export interface FlowNodePage {
  items: readonly FlowNodeOut[]; next: string | null;
}

/** Runs, newest first. */
export interface FlowPage {
  items: readonly FlowRunOut[]; next: string | null; missing: readonly string[];
}

/** Which failed node is to run again; all of them without one. */
export interface FlowRetry {
  node?: string | null;
}

/** A run. `left` nodes have not ended; `nodes` is counted up to 1,000, more is shown as 1,001. */
export interface FlowRunOut {
  id: number; flow: string; key: string | null;
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled";
  nodes: number; left: number; template: string | null; version: number | null;
  created_at: string; finished_at: string | null; error: string | null;
}

/** Which node counts as succeeded. */
export interface FlowSkip {
  node: string;
}

/** What to start; under a key only once. */
export interface FlowStart {
  flow: string; arguments?: Readonly<Record<string, unknown>>; version?: number | null;
  key?: string | null;
}

/** The run that was started, or that has the key already. */
export interface FlowStarted {
  message: string; changed: number; id: number;
}

/** The newest runs that go on, and the newest that failed and are kept. */
export interface FlowsNow {
  running: readonly FlowRunOut[]; failed: readonly FlowRunOut[];
}

/** How fresh the items of a kind are. Counts are exact below 10,000, rates per second. */
export interface FreshnessOut {
  kind: string; every: string; every_seconds: number; total: number; never_visited: number;
  due: number; overdue: number; oldest_age: number; needed_rate: number; actual_rate: number;
  forecast: string; breaks_at: string | null; head_room: number | null;
  missing: readonly string[];
}

/** Whether the console and its database answer. */
export interface Health {
  status: "ok";
}

/** Whether that made the difference: a late or repeated callback changes nothing. */
export interface Heard {
  changed: boolean;
}

/** The ages of all items: the time since the last visit, counted up to 20,000 items. */
export interface HistogramOut {
  bars: readonly BarOut[]; never_visited: number; promise_seconds: number; is_estimate: boolean;
}

/** What is known of an item; `status` is how its last visit ended, or that it runs now. */
export interface ItemOut {
  key: string;
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled";
  started_at: string | null; finished_at: string | null; due_at: string | null;
  remark: string | null;
}

/** A kind, and what was done of it in the last hour, minute by minute. */
export interface KindDetail {
  kind: KindOut; minutes: readonly MinuteOut[];
}

/** A kind. Counts are exact up to 10,000; `why` says why it runs or does not. */
export interface KindOut {
  kind: string; family: "task" | "cron" | "rolling" | "sweep" | "flow" | "external" | "unknown";
  is_declared: boolean; cron: string | null; every: string | null; sweep: string | null;
  next_due_at: string | null; waiting: number; due: number; running: number; failed: number;
  done_last_hour: number; failed_last_hour: number; average_milliseconds: number | null;
  paused: boolean; reason: string | null; who: string | null; since: string | null;
  opens_at: string | null; probe_at: string | null; rate: string | null; window: string | null;
  concurrency: number | null; breaker: string; why: string; is_held_back: boolean;
  declared: DeclaredOut | null;
}

/** A database that has a ledger; `shard` is what other calls take. */
export interface LedgerPlace {
  shard: string; name: string;
}

/** One SKU and how many of it. */
export interface LineBody {
  sku: string; quantity: number;
}

/** One SKU of a movement. */
export interface LineOut {
  sku: string; quantity: number;
}

/** One SKU of a movement. */
export interface LineView {
  sku: string; quantity: number;
}

/** The secret, and a name for the audit log. */
export interface LogIn {
  secret: string; name?: string;
}

/** A mark for each topic; what is behind a topic has changed when its mark has. */
export interface Marks {
  topics: Readonly<Record<string, string>>;
}

/** A worker of the ring. Shares are in percent. It owns `buckets`, and is to own `wanted`. */
export interface MemberOut {
  id: number; token: number; share: number; wanted_share: number; buckets: readonly ArcOut[];
  wanted: ArcOut; host: string; pid: number; kinds: readonly string[]; idle: number;
  joined_at: string; lease_until: string; is_alive: boolean;
}

/** What was done in one minute. */
export interface MinuteOut {
  at: string; done: number; failed: number; retried: number; average_milliseconds: number | null;
}

/** A worker joined or left; `why` it left, or the id it had `before` it joined again. */
export interface MoveOut {
  at: string; what: string; worker: number; host: string; pid: number; why: string | null;
  before: number | null;
}

/** Why an entry is in the ledger. */
export type Movement = "restock" | "adjust" | "deduct" | "return" | "void" | "lapse";

/** Lines under an id of the caller's. */
export interface MovementBody {
  id: string; lines: readonly LineBody[];
}

/** Which items to add, and whether to visit them at once. */
export interface NewCodes {
  codes: readonly string[]; now?: boolean;
}

/** Which node of which run a task is; the run itself has no node. */
export interface NodeRef {
  run: number; node: string | null;
}

/** A node of a template, as it was saved. */
export interface NodeSpec {
  name: string; kind: string; args: readonly unknown[]; kwargs: Readonly<Record<string, unknown>>;
  trigger: string; when: string | null;
}

/** How many of the newest alerts nobody has seen; it is exact up to 500. */
export interface OpenAlerts {
  count: number;
}

/** A deduction was refused: less was available than wanted. */
export interface OutOfStockView {
  error: "OutOfStock"; sku: string; wanted: number; available: number;
}

/** How everything is doing. Counts are exact up to 10,000; more is shown as 10,001. */
export interface Overview {
  now: string; database: string; shards: readonly string[]; missing: readonly string[];
  kinds: readonly KindOut[]; workers: readonly WorkerOut[]; failures: readonly FailureOut[];
  alerts: readonly AlertOut[]; flows: FlowsNow; minutes: readonly MinuteOut[];
}

export interface Page_AlertOut_ {
  items: readonly AlertOut[]; next: string | null; missing: readonly string[];
}

export interface Page_DeedOut_ {
  items: readonly DeedOut[]; next: string | null; missing: readonly string[];
}

export interface Page_ItemOut_ {
  items: readonly ItemOut[]; next: string | null; missing: readonly string[];
}

export interface Page_RunOut_ {
  items: readonly RunOut[]; next: string | null; missing: readonly string[];
}

/** Why, for those who look. */
export interface Pause {
  reason?: string;
}

/** What went wrong; facts may be fields beside these. */
export interface Problem {
  type: string; title: string; status: number; detail: string;
}

/** How far a loop has come; the total may be unknown. */
export interface ProgressOut {
  done: number; total: number | null;
}

/** A range: the keys after `begin` up to `end`; null is open. All is done up to `breakpoint`. */
export interface RangeOut {
  id: number; begin: string | null; end: string | null; breakpoint: string | null;
  read_to: string | null;
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled";
  done: number; failed: number; repeated: number; rows_estimate: number | null;
  percent: number | null; rate: number; owner: number | null; heartbeat_at: string | null;
  is_straggler: boolean;
}

/** A restock or an adjustment. */
export interface ReceiptView {
  id: string; movement: "restock" | "adjust"; lines: readonly LineView[]; created_at: string;
}

/** Which items to run again; all of them without keys. */
export interface Retry {
  keys?: readonly string[] | null;
}

/** A return with its first lines; with a `refusal` nothing came back. */
export interface ReturnOut {
  deduction: string; id: string;
  movement: "restock" | "adjust" | "deduct" | "return" | "void" | "lapse"; created_at: string;
  refusal: Readonly<Record<string, unknown>> | null; lines: readonly LineOut[];
  has_more_lines: boolean;
}

/** Returns, newest first. */
export interface ReturnPage {
  next: string | null; looked_at: number; items: readonly ReturnOut[];
}

/** What was given back of a deduction. */
export interface ReturnView {
  deduction: string; id: string; lines: readonly LineView[]; created_at: string;
}

/** The ring of one shard; `moving` buckets have not reached the worker that is to own them. */
export interface RingOut {
  database: string; now: string; known_by: string; buckets: number; owned: number;
  members: readonly MemberOut[]; free: readonly ArcOut[]; moving: number;
  careful: readonly ArcOut[]; careful_to: string | null; offers: number;
  moves: readonly MoveOut[];
}

/** The rings of all shards. */
export interface RingsOut {
  rings: readonly RingOut[]; missing: readonly string[];
}

/** What somebody may do. */
export type Role = "operator" | "viewer";

/** A rolling kind. */
export interface RollingDetail {
  freshness: FreshnessOut; histogram: HistogramOut;
}

/** A round that ended, or the one that runs. */
export interface RoundOut {
  round: number; started_at: string; ended_at: string | null; duration: number; done: number;
  failed: number; repeated: number; ranges: number; rate: number;
}

/** A named run, and its tries that ended, newest first. */
export interface RunDetail {
  run: RunOut; history: readonly RunOut[];
}

/** A named run, or a try of it that ended. `data` is JSON. */
export interface RunOut {
  name: string; partition: string; status: "failed" | "succeeded" | "running" | "ready";
  expired: boolean; stat_date: string | null; step: string | null; steps: readonly StepOut[];
  first_time: string | null; start_time: string | null; expire_time: string | null;
  end_time: string | null; run_seconds: number | null; error: string | null; data: string | null;
  batch: number | null; tries: number; who: string | null; progress: ProgressOut | null;
}

/** Who is there. `token` goes into the header x-csrf-token of whatever changes something. */
export interface SessionView {
  is_logged_in: boolean; needs_secret: boolean; name: string | null; role: Role | null;
  read_only: boolean; token: string | null; expires_at: string | null; version: string;
}

/** What to set; a field that is left out stays, null goes back to what the kind declares. */
export interface Set {
  rate?: string | null; window?: string | null; concurrency?: number | null;
}

/** What holds now: what is set, or else what the kind declares; null is no limit. */
export interface SettingOut {
  rate: string | null; window: string | null; concurrency: number | null; problem: string | null;
}

/** A shard. Counts are exact up to 10,000; null if it does not answer. */
export interface ShardOut {
  number: number; database: string; place: number | null; up: boolean; draining: boolean;
  unmoved: boolean; waiting: number | null; running: number | null; ended: number | null;
  moving: number | null; workers: number | null;
}

/** The graph of a template, as it was saved. */
export interface SpecOut {
  nodes: readonly NodeSpec[]; edges: readonly (readonly [string, string])[];
}

/** Into how many ranges. */
export interface Split {
  ranges: number;
}

/** What can be started: a declared flow, or the last version of a template. */
export interface StartableOut {
  name: string; version: number | null; summary: string; arguments: readonly ArgumentOut[];
}

/** A step; `result` is JSON. */
export interface StepOut {
  step: string; state: string; began_at: string; ended_at: string | null; seconds: number | null;
  result: string | null;
}

/** Stock, by SKU. */
export interface StockPage {
  next: string | null; looked_at: number; items: readonly StockView[];
}

/** How much there is of a SKU. */
export interface StockView {
  sku: string; available: number; received: number; deducted: number; returned: number;
}

/** A sweep with its ranges as they follow each other, and its last rounds. */
export interface SweepDetail {
  sweep: string; round: number; is_running: boolean; percent: number | null; done: number;
  failed: number; repeated: number; total: number | null; rate: number; eta: number | null;
  started_at: string | null; ended_at: string | null; next_at: string | null;
  error: string | null; why: string; ranges: readonly RangeOut[]; history: readonly RoundOut[];
}

/** How far a sweep is. Totals are estimates; null if the source does not count its rows. */
export interface SweepOut {
  sweep: string; round: number; is_running: boolean; percent: number | null; done: number;
  failed: number; repeated: number; total: number | null; rate: number; eta: number | null;
  started_at: string | null; ended_at: string | null; next_at: string | null;
  error: string | null; why: string;
}

/** What is set for a kind; null is as it declares. `held_back` says why it may not run. */
export interface SwitchOut {
  kind: string; off: boolean; reason: string | null; who: string | null; since: string | null;
  window: string | null; rate: string | null; concurrency: number | null; breaker: string;
  has_breaker: boolean; errors_in_a_row: number; opened_at: string | null;
  probe_at: string | null; held_back: string | null; holds: SettingOut;
}

/** A task, its last errors, the run of a flow that it belongs to, and the shard that has it. */
export interface TaskDetailOut {
  task: TaskFull; flow: NodeRef | null; failures: readonly FailureOut[]; shard: string;
  missing: readonly string[];
}

/** A task with everything; `payload` and `result` are JSON. */
export interface TaskFull {
  id: number; kind: string; key: string | null;
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled";
  priority: number; due_at: string | null; attempt: number; lost: number; worker: number | null;
  created_at: string; started_at: string | null; finished_at: string | null;
  last_status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled" | null;
  remark: string | null; bucket: number; batch: number | null; payload: string;
  result: string | null; is_rolling: boolean; can_retry: boolean; can_cancel: boolean;
}

/** A task as a list shows it. */
export interface TaskOut {
  id: number; kind: string; key: string | null;
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled";
  priority: number; due_at: string | null; attempt: number; lost: number; worker: number | null;
  created_at: string; started_at: string | null; finished_at: string | null;
  last_status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled" | null;
  remark: string | null;
}

/** Tasks, newest first. */
export interface TaskPage {
  items: readonly TaskOut[]; next: string | null; looked_at: number; missing: readonly string[];
}

/** A node on paper. */
export interface TemplateNode {
  name: string; kind: string; args?: readonly unknown[];
  kwargs?: Readonly<Record<string, unknown>>;
  trigger?: "all_success" | "all_done" | "any_success"; when?: string | null;
}

/** A version of a template with its graph. */
export interface TemplateOut {
  name: string; version: number; saved_at: string; nodes: number; edges: number;
  arguments: readonly string[]; spec: SpecOut;
}

/** Nodes and edges. */
export interface TemplateSpec {
  nodes: readonly TemplateNode[]; edges?: readonly (readonly [string, string])[];
}

/** How the task ended over there; whatever else the system says is not looked at. */
export interface Told {
  ok: boolean; result: unknown; reason: string | null;
}

/** A deduction was refused: none of it ever came in. */
export interface UnknownSkuView {
  error: "UnknownSku"; sku: string;
}

/** A version of a template, and the arguments that a start of it is to be given. */
export interface VersionOut {
  name: string; version: number; saved_at: string; nodes: number; edges: number;
  arguments: readonly string[];
}

/** Which item to visit now, unless its last visit is at most `fresh` seconds ago. */
export interface Visit {
  code: string; fresh?: number | null; timeout?: number;
}

/** Which run; with a batch only that try, not one that somebody has started since. */
export interface Which {
  partition?: string; batch?: number | null;
}

/** A worker that is there. `idle` is how many tasks it could start while it has none. */
export interface WorkerOut {
  id: number; host: string; pid: number; joined_at: string; lease_until: string; idle: number;
  kinds: readonly string[]; is_alive: boolean;
}

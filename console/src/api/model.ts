// Made by `make console-types` from the OpenAPI document of the API.

/** Versions, schema and health. `findings` are what `windlass check` says of the kinds. */
export interface About {
  version: string; python: string; packages: Readonly<Record<string, string>>; is_built: boolean;
  now: string | null; databases: readonly AboutDatabaseHealth[]; findings: readonly Finding[];
}

/** A database; `server` is its version, `schema_found` that of its tables. */
export interface AboutDatabaseHealth {
  name: string; dialect: string; server: string | null; schema_found: string | null;
  schema_needed: string; user: string | null; tls: string | null; milliseconds: number | null;
  problem: string | null;
}

/** How long it and all of its sort and kind stay quiet; null: until there is a new one. */
export interface Acknowledge {
  quiet?: string | null;
}

/** What an action did, in words, and how many rows it changed. */
export interface ActionResult {
  message: string; changed: number;
}

/** The limits of a downstream that adapts at a moment, and how it answered then. */
export interface AdaptView {
  at: string; rate: number | null; concurrency: number | null; succeeded_per_second: number;
  overloaded_per_second: number; mean_milliseconds: number | null;
}

/** One SKU and how many more, or less, there are of it. */
export interface AdjustLineBody {
  sku: string; quantity: number;
}

/** What a count found. */
export interface AdjustmentBody {
  id: string; lines: readonly AdjustLineBody[]; reason?: string;
}

/** An alert, and its deliveries, newest first. */
export interface AlertDetail {
  alert: AlertView; deliveries: readonly DeliveryView[];
}

/** An alert: one for each cause, for as long as the cause lasts. */
export interface AlertView {
  id: number; what: string; kind: string | null; task_id: number | null;
  severity: "info" | "warning" | "critical"; raised_at: string; text: string; times: number;
  last_at: string; resolved_at: string | null; resolution: string | null; is_open: boolean;
  seen_by: string | null; seen_at: string | null; quiet_until: string | null;
}

/** Buckets from `begin` up to and without `end`. */
export interface Arc {
  begin: number; end: number;
}

/** An argument of a handler. */
export interface ArgumentView {
  name: string; type: string; required: boolean;
}

/** The result of an audit: true without problems. */
export interface Audit {
  ok: boolean; problems: readonly string[];
}

/** What a person did or tried; `detail` is JSON. `ok` is None until the action ends. */
export interface AuditEntry {
  id: number; acted_at: string; who: string; via: string; address: string | null; action: string;
  about: string | null; detail: string | null; ok: boolean | null; outcome: string | null;
}

/** A deduction was refused: a sum of the ledger would become too large. */
export interface BalanceLimitRefusal {
  error: "BalanceLimit"; sku: string; wanted: number; room: number;
}

/** How many items were last visited this long ago; the last bar has no end. */
export interface Bar {
  from_seconds: number; to_seconds: number | null; count: number; is_late: boolean;
}

/** What a call did. `skipped` tasks matched, but did not change; `next` continues. */
export interface Bulk {
  message: string; changed: number; skipped: number; next: string | null;
}

/** Which tasks to end; `next` goes on where a call ended. */
export interface BulkCancel {
  status: "waiting" | "running" | "external"; kind?: string | null; key?: string | null;
  created_after?: string | null; created_before?: string | null; reason?: string;
  next?: string | null;
}

/** Which failed or cancelled tasks to let run again; `next` goes on where a call ended. */
export interface BulkRetry {
  status: "failed" | "cancelled"; kind?: string | null; key?: string | null;
  created_after?: string | null; created_before?: string | null; next?: string | null;
}

/** How the task ended; other fields are ignored. */
export interface Callback {
  ok: boolean; result: unknown; reason: string | null;
}

/** Whether the callback ended the task; a late or repeated one changes nothing. */
export interface CallbackAnswer {
  changed: boolean;
}

/** Why, for the people who read it later. */
export interface CancelTask {
  reason?: string;
}

/** Where alerts go. Its URL is a secret and is not shown. */
export interface ChannelView {
  name: string; scheme: string; severity: "info" | "warning" | "critical";
  kinds: readonly string[] | null; every: string | null; quiet: string | null;
  fallback: string | null;
}

/** Whether a template can be saved, what is wrong with it, and the arguments of a start. */
export interface Checked {
  ok: boolean; problems: readonly string[]; arguments: readonly string[];
}

/** Which items. */
export interface Codes {
  codes: readonly string[];
}

/** A deduction that is final, and since when. */
export interface Confirmation {
  deduction: string; confirmed_at: string;
}

/** The end of a run that failed, and why. */
export interface ControlError {
  partition?: string; batch?: number | null; data?: unknown; error?: string;
}

/** The end of a run that succeeded. */
export interface ControlFinish {
  partition?: string; batch?: number | null; data?: unknown;
}

/** What is kept with the run: objects are merged, anything else replaces what was there. */
export interface ControlNote {
  partition?: string; batch?: number | null; data: unknown;
}

/** A control run, and its tries that ended, newest first. */
export interface ControlRunDetail {
  run: RunView; history: readonly RunView[];
}

/** A start: until when the run is held, what is kept with it, and whether it happens once. */
export interface ControlStart {
  partition?: string; expires?: string | null; data?: unknown; once?: boolean;
}

/** The step that begins, and what is kept with it. */
export interface ControlStep {
  partition?: string; batch?: number | null; step: number | string; data?: unknown;
}

/** The name and the role of a new token, and for how long it is valid; null: without end. */
export interface CreateToken {
  name: string; role: Role; expires?: string | null;
}

/** A cron, and its results of the last week, newest first. */
export interface CronDetail {
  cron: CronView; results: readonly ResultView[]; missing: readonly string[];
}

/** The task that runs the cron. */
export interface CronStarted {
  message: string; changed: number; id: number;
}

/** A cron: what holds, what it declares, its next turns and its last one. */
export interface CronView {
  kind: string; summary: string; schedule: ScheduleView; declared: ScheduleView;
  changed: ScheduleChangeView | null; catchup: boolean; task: number | null;
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled" | null;
  next: readonly string[]; last: TurnView | null; off: boolean; held_back: string | null;
  held: SaidView | null;
}

/** A day, as an ISO date, and the times at which a window is open on it. */
export interface DayAhead {
  date: string; open: readonly OpenHours[];
}

/** What the code declares; an operator may have set other values. */
export interface DeclaredView {
  summary: string; arguments: readonly ArgumentView[]; retries: number; timeout: string | null;
  rate: string | null; window: string | null; group: string | null; concurrency: number | null;
  total_concurrency: number | null; priority: number; breaker: string | null;
  downstreams: readonly string[]; via: string | null; isolate: string | null;
}

/** A deduction: as it was made, or, asked for later, as it is now. */
export interface Deduction {
  id: string; status: "held" | "deducted" | "refused" | "voided" | "lapsed";
  lines: readonly DeductionLine[]; created_at: string; hold_until: string | null;
  confirmed_at: string | null;
  refusal: OutOfStockRefusal | UnknownSkuRefusal | BalanceLimitRefusal | null;
}

/** A deduction; with a hold, such as "15m", it comes back unless it is confirmed. */
export interface DeductionBody {
  id: string; lines: readonly LineBody[]; hold?: string | null;
}

/** One SKU of a deduction, and how much of it has come back. */
export interface DeductionLine {
  sku: string; quantity: number; returned: number;
}

/** The delivery of an alert to a channel: a task, which can be retried. */
export interface DeliveryView {
  task_id: number; channel: string; stage: string; status: string; attempts: number;
  created_at: string; finished_at: string | null;
}

/** A downstream: what it declares, what holds now, and who uses it. */
export interface DownstreamView {
  name: string; adapt: boolean; declared: LimitView; holds: LimitView; problem: string | null;
  off: boolean; breaker: string; has_breaker: boolean; errors_in_a_row: number;
  probe_at: string | null; held_back: string | null; home: string; permits_held: number;
  permits_wanted: number; permits: readonly PermitView[]; kinds: readonly TakeView[];
  history: readonly AdaptView[]; missing: readonly string[]; held: SaidView | null;
}

/** One change of what is available of a SKU; all of them together are the balance. */
export interface Entry {
  id: number; sku: string; quantity: number; movement: Movement; reference: string;
  return_id: string | null; created_at: string;
}

/** What comes back, and what goes out for it, under an id that the caller chooses. */
export interface ExchangeBody {
  id: string; back: readonly LineBody[]; out: readonly LineBody[];
}

/** A graph as text. */
export interface ExportOut {
  format: "mermaid" | "dot" | "json"; text: string;
}

/** How an external task ended: the task by its id, or by the handle of the external system. */
export interface ExternalEnd {
  task: number | string; ok: boolean; result?: unknown; reason?: string; kind?: string | null;
}

/** A message that is tried again, or that failed. `body` is text, or base64 if `is_binary`. */
export interface FailedMessage {
  id: number; kind: string; queue: string; message_id: string;
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled";
  tries: number; received_at: string; due_at: string | null; failed_at: string | null;
  lane: string | null; content_type: string; headers: string; body: string; is_binary: boolean;
  error: string | null; is_cut: boolean;
}

/** An error of a task. */
export interface FailureView {
  id: number; task_id: number; kind: string; attempt: number; failed_at: string; error: string;
  trace: string;
}

/** Something that is wrong, or may be. */
export interface Finding {
  level: "error" | "warning"; about: string; text: string;
}

/** Why, for those who read it later. */
export interface FlowCancel {
  reason?: string;
}

/** A flow run and its graph. If the graph is too large to draw, it has only some of the nodes. */
export interface FlowDetail {
  run: FlowRunView; arguments: string; counts: Readonly<Record<string, number>>;
  nodes: readonly FlowNodeView[]; edges: readonly (readonly [string, string])[];
  inside: readonly (readonly [string, string])[]; total: number; is_whole: boolean;
}

/** Changes to a run, made together or not at all. A node that has begun cannot be changed. */
export interface FlowEdit {
  add?: readonly FlowNodeNew[]; link?: readonly (readonly [string, string])[];
  unlink?: readonly (readonly [string, string])[];
}

/** A node of a template. */
export interface FlowNodeBody {
  name: string; kind: string; args?: readonly unknown[];
  kwargs?: Readonly<Record<string, unknown>>;
  trigger?: "all_success" | "all_done" | "any_success" | "one_failed" | "all_failed";
  when?: string | null;
}

/** A node with everything: `arguments` and `result` are JSON. */
export interface FlowNodeDetail {
  node: FlowNodeView; when: string | null; arguments: string; result: string | null;
  handle: string | null; failures: readonly FailureView[]; waits_for: readonly FlowNodeView[];
  before: readonly FlowNodeView[];
}

/** A node to add to a run. In arguments `{"$result": "load"}` stands for the result of load. */
export interface FlowNodeNew {
  name: string; kind: string; args?: readonly unknown[];
  kwargs?: Readonly<Record<string, unknown>>;
  trigger?: "all_success" | "all_done" | "any_success" | "one_failed" | "all_failed";
  when?: string | null; after?: readonly string[];
}

/** Nodes in the order of their names; `next` is the `after` of what follows, null at the end. */
export interface FlowNodePage {
  items: readonly FlowNodeView[]; next: string | null;
}

/** A node. It waits for `open_slots` of its `slots`; `rule` says what fills them. */
export interface FlowNodeView {
  id: number; name: string; kind: string;
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled";
  rule: string; slots: number; open_slots: number; attempt: number; due_at: string | null;
  started_at: string | null; finished_at: string | null; error: string | null;
  is_skipped: boolean;
}

/** The failed node to run again; without one, all of them. */
export interface FlowRetry {
  node?: string | null;
}

/** A flow run. `left` nodes have not ended; `nodes` counts to 1,000, more is shown as 1,001. */
export interface FlowRunView {
  id: number; flow: string; key: string | null;
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled";
  left: number; created_at: string; finished_at: string | null; error: string | null;
  nodes: number; template: string | null; version: number | null;
}

/** The node to count as succeeded. */
export interface FlowSkip {
  node: string;
}

/** What to start; once for each key. */
export interface FlowStart {
  flow: string; arguments?: Readonly<Record<string, unknown>>; version?: number | null;
  key?: string | null;
}

/** The run that was started, or that has the key. */
export interface FlowStarted {
  message: string; changed: number; id: number; created: boolean;
}

/** The newest flow runs that go on, and the newest that failed and are kept. */
export interface FlowsNow {
  running: readonly FlowRunView[]; failed: readonly FlowRunView[];
}

/** What a kind takes when a person enqueues or starts it. */
export interface FormView {
  kind: string; does: "enqueue" | "start" | "nothing"; why_not: string | null; summary: string;
  parameters: readonly ParameterView[]; takes_more: boolean; priority: number;
}

/** Whether the console and its database answer. */
export interface Health {
  status: "ok";
}

/** The ages of all items: the time since the last visit, counted up to 20,000 items. */
export interface Histogram {
  bars: readonly Bar[]; never_visited: number; promise_seconds: number; is_estimate: boolean;
}

/** One item. `status` is how its last visit ended, or that it is running. */
export interface Item {
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled";
  started_at: string | null; finished_at: string | null; due_at: string | null;
  remark: string | null; key: string;
}

/** A kind, and what was done of it in the last hour, minute by minute. */
export interface KindDetail {
  kind: KindView; minutes: readonly Minute[];
}

/** A kind. Counts are exact up to 10,000; `why` says why it runs or does not. */
export interface KindView {
  kind: string; is_declared: boolean; cron: string | null; every: string | null;
  sweep: string | null; via: string | null; next_due_at: string | null; waiting: number;
  due: number; running: number; failed: number; done_last_hour: number; failed_last_hour: number;
  average_milliseconds: number | null; paused: boolean; reason: string | null; who: string | null;
  since: string | null; until: string | null; group: string | null; opens_at: string | null;
  probe_at: string | null; rate: string | null; window: string | null; concurrency: number | null;
  breaker: string; why: string; is_held_back: boolean;
  family: "task" | "cron" | "rolling" | "sweep" | "flow" | "external" | "queue" | "unknown";
  declared: DeclaredView | null; says: SaidView | null;
}

export interface LedgerPage_ListedDeduction_ {
  items: readonly ListedDeduction[]; next: string | null; looked_at: number;
}

export interface LedgerPage_ListedEntry_ {
  items: readonly ListedEntry[]; next: string | null; looked_at: number;
}

export interface LedgerPage_ListedReturn_ {
  items: readonly ListedReturn[]; next: string | null; looked_at: number;
}

export interface LedgerPage_Stock_ {
  items: readonly Stock[]; next: string | null; looked_at: number;
}

/** A database that has a ledger; `shard` is what other calls take. */
export interface LedgerPlace {
  shard: string; name: string;
}

/** The limits of a downstream; None is no limit. */
export interface LimitView {
  rate: string | null; concurrency: number | null; window: string | null;
}

/** One SKU of a movement. */
export interface Line {
  sku: string; quantity: number;
}

/** One SKU and how many of it. */
export interface LineBody {
  sku: string; quantity: number;
}

/** A deduction with its first lines; `refusal` has the error and its facts. */
export interface ListedDeduction {
  id: string; status: "held" | "deducted" | "refused" | "voided" | "lapsed"; created_at: string;
  hold_until: string | null; confirmed_at: string | null;
  refusal: Readonly<Record<string, unknown>> | null; lines: readonly DeductionLine[];
  has_more_lines: boolean;
}

/** One change of what is available; in a list of one SKU, `balance` is what was left then. */
export interface ListedEntry {
  id: number; sku: string; quantity: number; movement: Movement; reference: string;
  return_id: string | null; created_at: string; balance: number | null;
}

/** A return with its first lines; with a `refusal` nothing came back or went `out`. */
export interface ListedReturn {
  deduction: string; id: string; movement: Movement; created_at: string;
  refusal: Readonly<Record<string, unknown>> | null; lines: readonly Line[];
  has_more_lines: boolean; out: readonly Line[]; has_more_out: boolean;
}

/** The secret, an access token or that of the printed link, and a name for the audit log. */
export interface LogIn {
  secret: string; name?: string;
}

/** One record that a handler logged. */
export interface LogLine {
  at: string; level: string; logger: string; text: string;
}

/** How far a loop has come; the total may be unknown. */
export interface LoopProgress {
  done: number; total: number | null;
}

/** A mark for each topic; it changes when something of the topic changes. */
export interface Marks {
  topics: Readonly<Record<string, string>>;
}

/** Which failed messages are meant; all of them without ids. */
export interface Messages {
  ids?: readonly number[] | null;
}

/** What was done in the minute that began `at`, in microseconds since the epoch. */
export interface Minute {
  at: string; done: number; failed: number; retried: number; average_milliseconds: number | null;
}

/** Why an entry is in the ledger. */
export type Movement = "restock" | "adjust" | "deduct" | "return" | "exchange" | "void" | "lapse";

/** Lines under an id that the caller chooses. */
export interface MovementBody {
  id: string; lines: readonly LineBody[];
}

/** Which items to add, and whether to visit them at once. */
export interface NewCodes {
  codes: readonly string[]; now?: boolean;
}

/** A token that was just made. Nobody can see `token` again. */
export interface NewToken {
  token: string; name: string; role: Role; prefix: string; expires_at: string | null;
}

/** Which node of which flow run a task is; the flow run itself has no node. */
export interface NodeOfRun {
  run: number; node: string | null;
}

/** How many of the newest alerts are open; exact up to 500. */
export interface OpenAlerts {
  count: number;
}

/** A stretch of a day, in minutes since its midnight by the clocks of the zone. */
export interface OpenHours {
  begin: number; end: number;
}

/** A deduction was refused: less was available than wanted. */
export interface OutOfStockRefusal {
  error: "OutOfStock"; sku: string; wanted: number; available: number;
}

/** How everything is doing. Counts are exact up to 10,000; more is shown as 10,001. */
export interface Overview {
  now: string; database: string; shards: readonly string[]; missing: readonly string[];
  kinds: readonly KindView[]; workers: readonly OverviewWorkerLine[];
  failures: readonly FailureView[]; alerts: readonly AlertView[]; flows: FlowsNow;
  minutes: readonly Minute[];
}

/** A worker that has not left. `idle` is how many tasks it could start while it has none. */
export interface OverviewWorkerLine {
  id: number; host: string; pid: number; joined_at: string; lease_until: string; idle: number;
  kinds: readonly string[]; is_alive: boolean;
}

export interface Page_AlertView_ {
  items: readonly AlertView[]; next: string | null; missing: readonly string[];
}

export interface Page_AuditEntry_ {
  items: readonly AuditEntry[]; next: string | null; missing: readonly string[];
}

export interface Page_CronView_ {
  items: readonly CronView[]; next: string | null; missing: readonly string[];
}

export interface Page_FlowRunView_ {
  items: readonly FlowRunView[]; next: string | null; missing: readonly string[];
}

export interface Page_Item_ {
  items: readonly Item[]; next: string | null; missing: readonly string[];
}

export interface Page_PromiseView_ {
  items: readonly PromiseView[]; next: string | null; missing: readonly string[];
}

export interface Page_RunView_ {
  items: readonly RunView[]; next: string | null; missing: readonly string[];
}

export interface Page_TokenView_ {
  items: readonly TokenView[]; next: string | null; missing: readonly string[];
}

/** A parameter of a handler: its type by name and as a JSON schema, and its default, as JSON. */
export interface ParameterView {
  name: string; type: string; accepts: string; required: boolean; default: string | null;
  doc: string | null;
}

/** The group whose kinds to pause; without it, everything. */
export interface PauseAll {
  reason?: string; until?: string | null; group?: string | null;
}

/** Why, for the people who read it later, and when it resumes by itself. */
export interface PauseKind {
  reason?: string; until?: string | null;
}

/** Whether everything, or a group, is paused; `group` is None for everything. */
export interface PauseView {
  name: string; group: string | null; kinds: readonly string[]; off: boolean;
  reason: string | null; who: string | null; since: string | null; until: string | null;
  held_back: string | null; held: SaidView | null;
}

/** The permits of one worker, and how many it could use. */
export interface PermitView {
  worker: number; held: number; wanted: number; waits_since: string | null;
}

/** What went wrong; facts may be further fields. */
export interface Problem {
  type: string; title: string; status: number; detail: string;
}

/** How far a sweep is, or one run of it over a source that was given at its start. */
export interface Progress {
  sweep: string; round: number; is_running: boolean; percent: number | null; done: number;
  failed: number; repeated: number; total: number | null; rate: number; eta: number | null;
  started_at: string | null; ended_at: string | null; next_at: string | null;
  error: string | null; why: string; ranges: readonly RangeView[]; history: readonly RoundView[];
  kind: string; run: number | null; source: string | null; key: string | null;
  says: SaidView | null;
}

/** How far a sweep is, or one run of it over a source that was given at its start. */
export interface ProgressSummary {
  sweep: string; round: number; is_running: boolean; percent: number | null; done: number;
  failed: number; repeated: number; total: number | null; rate: number; eta: number | null;
  started_at: string | null; ended_at: string | null; next_at: string | null;
  error: string | null; why: string; kind: string; run: number | null; source: string | null;
  key: string | null; says: SaidView | null;
}

/** How far a running task is, as its handler said, and when that was written. */
export interface ProgressView {
  done: number; total: number | null; note: string | null; at: string; percent: number | null;
}

/** What a kind promises and how that stands. Rates are per second. */
export interface PromiseView {
  kind: string; face: "task" | "cron" | "rolling" | "sweep" | "flow"; promise: string;
  within: number; state: "kept" | "at risk" | "broken" | "unknown"; standing: string;
  forecast: string; cure: string | null; breaks_at: string | null; ends_at: string | null;
  oldest_age: number | null; overdue: number | null; percent: number | null; rate: number | null;
  needed_rate: number | null; held_back: string | null; missing: readonly string[];
}

/** A queue, and what its broker says when it is asked. */
export interface QueueDetail {
  name: string; address: string; kinds: readonly string[]; carries: readonly string[];
  waiting: number; oldest_at: string | null; unsent: number; retrying: number; failed: number;
  received_per_second: number; sent_per_second: number; answered_at: string | null;
  failed_at: string | null; error: string | null; is_tested: boolean; depth: number | null;
  problem: string | null;
}

/** A queue of a broker: what comes in, what goes out, and what failed. Counts stop at 10,000. */
export interface QueueView {
  name: string; address: string; kinds: readonly string[]; carries: readonly string[];
  waiting: number; oldest_at: string | null; unsent: number; retrying: number; failed: number;
  received_per_second: number; sent_per_second: number; answered_at: string | null;
  failed_at: string | null; error: string | null; is_tested: boolean;
}

/** A range as people see it: the keys after `begin` up to `end`; None is an open end. */
export interface RangeView {
  id: number; begin: string | null; end: string | null; breakpoint: string | null;
  read_to: string | null;
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled";
  done: number; failed: number; repeated: number; rows_estimate: number | null; rate: number;
  owner: number | null; heartbeat_at: string | null; is_straggler: boolean;
  percent: number | null;
}

/** A restock or an adjustment that was made. */
export interface Receipt {
  id: string; movement: Movement; lines: readonly Line[]; created_at: string;
}

/** The answer to a plain call. */
export interface Reply {
  code: number; msg: string; data: Readonly<Record<string, unknown>>;
}

/** What ended in one minute: turns and runs by hand, and how long they ran together. */
export interface ResultView {
  at: string; succeeded: number; failed: number; retried: number; milliseconds: number;
}

/** The group whose pause to end; without it, the pause of everything. */
export interface ResumeAll {
  group?: string | null;
}

/** Which failed items to retry; all of them without keys. */
export interface RetryItems {
  keys?: readonly string[] | null;
}

/** What was given back of a deduction under one id; in an exchange other goods went `out`. */
export interface Return {
  deduction: string; id: string; lines: readonly Line[]; created_at: string; out: readonly Line[];
}

/** A worker joined or left the ring. */
export interface RingMove {
  at: string; what: string; worker: number; host: string; pid: number; why: string | null;
  before: number | null;
}

/** The rings of all shards. */
export interface Rings {
  rings: readonly RingsRingView[]; missing: readonly string[];
}

/** The ring of one database. Times are microseconds since the epoch. */
export interface RingsRingView {
  database: string; now: string; known_by: string; members: readonly RingsRingViewMemberView[];
  free: readonly Arc[]; moving: number; careful: readonly Arc[]; careful_to: string | null;
  offers: number; moves: readonly RingMove[]; buckets: number; owned: number;
}

/** A worker of the ring. Shares are in percent of all buckets. */
export interface RingsRingViewMemberView {
  id: number; token: number; share: number; wanted_share: number; buckets: readonly Arc[];
  wanted: Arc; host: string; pid: number; kinds: readonly string[]; idle: number;
  joined_at: string; lease_until: string; is_alive: boolean;
}

/** What a person or a program may do. */
export type Role = "viewer" | "operator" | "producer" | "admin";

/** A rolling kind, and the ages of its items. */
export interface RollingDetail {
  freshness: RollingView; histogram: Histogram;
}

/** How fresh the items of a kind are. Counts are exact below 10,000, rates per second. */
export interface RollingView {
  kind: string; every: string; every_seconds: number; total: number; never_visited: number;
  due: number; overdue: number; oldest_age: number; needed_rate: number; actual_rate: number;
  forecast: string; breaks_at: string | null; head_room: number | null;
  missing: readonly string[];
}

/** A round that ended. */
export interface RoundView {
  round: number; started_at: string; ended_at: string | null; duration: number; done: number;
  failed: number; repeated: number; ranges: number; rate: number;
}

/** What one run of a task logged, oldest first; `dropped` older records were not kept. */
export interface RunLogView {
  id: number; attempt: number; worker: number | null; ended_at: string; dropped: number;
  lines: readonly LogLine[];
}

/** A control run, or a try of it that ended, as people see it. `data` is JSON. */
export interface RunView {
  name: string; partition: string; status: "failed" | "succeeded" | "running" | "ready";
  expired: boolean; stat_date: string | null; step: string | null; steps: readonly StepView[];
  first_time: string | null; start_time: string | null; expire_time: string | null;
  end_time: string | null; run_seconds: number | null; error: string | null; data: string | null;
  batch: number | null; tries: number; who: string | null; progress: LoopProgress | null;
}

/** A sentence: in English, and as a code with values, by which it is said in other languages. */
export interface SaidView {
  text: string; code: string; values: Readonly<Record<string, unknown>>;
}

/** Who set the schedule that holds, and when. */
export interface ScheduleChangeView {
  who: string; since: string;
}

/** A schedule: an expression such as "0 3 * * *" or "@every 30s", its zone, and in words. */
export interface ScheduleView {
  cron: string; zone: string; words: SaidView;
}

/** Who is logged in, and by what. Requests that change something have `token` as x-csrf-token. */
export interface SessionView {
  is_logged_in: boolean; needs_secret: boolean; name: string | null; role: Role | null;
  by: "secret" | "link" | "token" | "proxy" | null; read_only: boolean; token: string | null;
  expires_at: string | null; version: string;
}

/** A failed item: its key, its error, and how often it was tried. */
export interface SetAside {
  key: string; error: string; round: number; failed_at: string; tries: number;
  known_as: string | null; shown: string;
}

/** What to set; a field that is left out stays, null goes back to what the kind declares. */
export interface SetKind {
  rate?: string | null; window?: string | null; concurrency?: number | null;
}

/** When to run: an expression, or a time between turns; without a zone, in the declared one. */
export interface SetSchedule {
  cron?: string | null; every?: string | null; tz?: string | null;
}

/** What holds now: what is set, or else what the kind declares; None is no limit. */
export interface SettingView {
  rate: string | null; window: string | null; concurrency: number | null; problem: string | null;
}

/** A shard as people see it. Counts are exact up to 10,000. */
export interface ShardView {
  number: number; database: string; place: number | null; up: boolean; draining: boolean;
  unmoved: boolean; waiting: number | null; running: number | null; ended: number | null;
  moving: number | null; workers: number | null;
}

/** How many ranges there should be. */
export interface Split {
  ranges: number;
}

/** What can be started: a declared flow, or the last version of a template. */
export interface StartableView {
  name: string; version: number | null; summary: string; arguments: readonly ArgumentView[];
}

/** How far a step has come. */
export type StepState = "done" | "under way" | "not finished";

/** A step as people see it; `seconds` is how long it took. `result` and `data` are JSON. */
export interface StepView {
  step: string; state: StepState; began_at: string; ended_at: string | null;
  seconds: number | null; result: string | null; data: string | null;
}

/** How much there is of a SKU: received = available + deducted - returned. */
export interface Stock {
  sku: string; available: number; received: number; deducted: number; returned: number;
  allotted: number; unsynced: number;
}

/** The result of visiting one key. Unless `is_new`, it is that of an earlier, fresh visit. */
export interface SweepVisit {
  key: string;
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled";
  error: string | null; visited_at: string; is_new: boolean;
}

/** What is set for a kind; None is as it declares. `held_back` says why it may not run. */
export interface SwitchView {
  kind: string; group: string | null; off: boolean; reason: string | null; who: string | null;
  since: string | null; until: string | null; paused_by: readonly string[]; window: string | null;
  rate: string | null; concurrency: number | null; breaker: string; has_breaker: boolean;
  errors_in_a_row: number; opened_at: string | null; probe_at: string | null;
  held_back: string | null; holds: SettingView; ahead: WindowAhead | null; held: SaidView | null;
}

/** What one kind takes of a downstream: averages of the last minutes. */
export interface TakeView {
  kind: string; starts_per_minute: number; errors_per_minute: number;
  mean_milliseconds: number | null; held_back: string | null; held: SaidView | null;
}

/** A task, its last errors, its flow run if it has one, and the shard that has it. */
export interface TaskDetail {
  task: TaskFull; flow: NodeOfRun | null; failures: readonly FailureView[]; shard: string;
  missing: readonly string[];
}

/** A task with everything; `payload` and `result` are JSON. */
export interface TaskFull {
  id: number; kind: string; key: string | null;
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled";
  priority: number; bucket: number; due_at: string | null; attempt: number; lost: number;
  worker: number | null; batch: number | null; created_at: string; started_at: string | null;
  finished_at: string | null;
  last_status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled" | null;
  remark: string | null; lane: string | null; payload: string; result: string | null;
  progress: ProgressView | null; via: string | null; isolate: string | null; is_rolling: boolean;
  can_retry: boolean; can_cancel: boolean;
}

/** One of many tasks. */
export interface TaskItem {
  arguments?: Readonly<Record<string, unknown>>; key?: string | null;
}

/** A task. Times are microseconds since the epoch; `payload` and `result` are JSON. */
export interface TaskLine {
  id: number; kind: string; key: string | null;
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled";
  priority: number; due_at: string | null; attempt: number; lost: number; worker: number | null;
  created_at: string; started_at: string | null; finished_at: string | null;
  last_status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled" | null;
  remark: string | null; lane: string | null; progress: ProgressView | null;
}

/** Tasks, newest first; `looked_at` is how many rows were read for them. */
export interface TaskListing_TaskLine {
  items: readonly TaskLine[]; next: string | null; missing: readonly string[]; looked_at: number;
}

/** What the last runs of a task logged, newest first, and the shards that do not answer. */
export interface TaskLogs {
  runs: readonly RunLogView[]; missing: readonly string[];
}

/** A task; `created` is false if one was there already, by its key. */
export interface TaskMade {
  id: number; created: boolean;
}

/** One task: its kind, its arguments by name, and its key if it has one. */
export interface TaskNew {
  kind: string; lane?: string | null; delay?: string | null; at?: string | null;
  priority?: number | null; on_conflict?: "skip" | "raise" | "replace" | null;
  on_past?: "run" | "raise" | null; arguments?: Readonly<Record<string, unknown>>;
  key?: string | null;
}

/** How a task ended, or that it has not. `result` is the value that its handler returned. */
export interface TaskResult {
  id: number; kind: string;
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled";
  ended: boolean; result: unknown; error: string | null;
}

/** The tasks, in the order of the request. */
export interface TasksMade {
  tasks: readonly TaskMade[];
}

/** Many tasks of a kind, written together or not at all; all of them have a key, or none. */
export interface TasksNew {
  kind: string; lane?: string | null; delay?: string | null; at?: string | null;
  priority?: number | null; on_conflict?: "skip" | "raise" | "replace" | null;
  on_past?: "run" | "raise" | null; tasks: readonly TaskItem[];
}

/** A flow as JSON, drawn in the console or loaded from a file. */
export interface Template {
  nodes: readonly TemplateNode[]; edges: readonly (readonly [string, string])[];
}

/** A node of a template. */
export interface TemplateNode {
  name: string; kind: string; args: readonly unknown[]; kwargs: Readonly<Record<string, unknown>>;
  trigger: string; when: string | null;
}

/** Nodes and edges. */
export interface TemplateSpec {
  nodes: readonly FlowNodeBody[]; edges?: readonly (readonly [string, string])[];
}

/** A version of a template, and the arguments that a start of it needs. */
export interface TemplateVersion {
  name: string; version: number; saved_at: string; nodes: number; edges: number;
  arguments: readonly string[];
}

/** A version of a template, and the arguments that a start of it needs. */
export interface TemplateView {
  name: string; version: number; saved_at: string; nodes: number; edges: number;
  arguments: readonly string[]; spec: Template;
}

/** A token, as operators see it: never the token itself, only how it begins. */
export interface TokenView {
  name: string; role: Role; prefix: string; state: "active" | "expired" | "revoked";
  created_at: string; created_by: string; expires_at: string | null; last_used_at: string | null;
  revoked_at: string | null; revoked_by: string | null;
}

/** The last turn: when it began and ended, and how; `error` is why it failed. */
export interface TurnView {
  started_at: string | null; ended_at: string;
  status: "waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled";
  seconds: number | null; error: string | null;
}

/** A deduction was refused: none of it ever came in. */
export interface UnknownSkuRefusal {
  error: "UnknownSku"; sku: string;
}

/** Which item to visit now, unless its last visit is at most `fresh` seconds ago. */
export interface VisitBody {
  code: string; fresh?: number | null; timeout?: number;
}

/** Which key to visit now, and for how many seconds to wait. */
export interface VisitKey {
  key: number | string | readonly (number | string)[]; fresh?: number | null; timeout?: number;
}

/** Which key to visit, unless it was done at most `fresh` seconds ago. */
export interface VisitKeySoon {
  key: number | string | readonly (number | string)[]; fresh?: number | null;
}

/** Which item to visit soon, unless its last visit is at most `fresh` seconds ago. */
export interface VisitSoonBody {
  code: string; fresh?: number | null;
}

/** Which run; with a batch only that try, not a later one. */
export interface Which {
  partition?: string; batch?: number | null;
}

/** Today and the thirteen days after it. `now` is in minutes since midnight of today. */
export interface WindowAhead {
  zone: string; now: number; is_open: boolean; opens_at: string | null; days: readonly DayAhead[];
}

// Made by `make console-types` from the OpenAPI document of the API.

import type * as Model from "./model";

type Maybe<T> = T | null | undefined;

export interface Get {
  "session": { answer: Model.SessionView; };
  "overview": { answer: Model.Overview; };
  "kinds": { answer: readonly Model.KindView[]; };
  "kinds/{kind}": { params: { kind: string; }; answer: Model.KindDetail; };
  "rolling": { answer: readonly Model.RollingView[]; };
  "rolling/{kind}": { params: { kind: string; }; answer: Model.RollingDetail; };
  "rolling/{kind}/items": {
    params: { kind: string; };
    query?: { prefix?: Maybe<string>; after?: Maybe<string>; limit?: Maybe<number | string>; };
    answer: Model.Page_Item_;
  };
  "rolling/{kind}/item": {
    params: { kind: string; }; query: { code: string; }; answer: Model.Item;
  };
  "sweeps": { answer: readonly Model.ProgressSummary[]; };
  "sweeps/{kind}": { params: { kind: string; }; answer: Model.Progress; };
  "sweeps/{kind}/rounds": {
    params: { kind: string; }; query?: { limit?: Maybe<number | string>; };
    answer: readonly Model.RoundView[];
  };
  "sweeps/{kind}/failures": {
    params: { kind: string; }; query?: { limit?: Maybe<number | string>; };
    answer: readonly Model.SetAside[];
  };
  "sweeps/{kind}/audit": { params: { kind: string; }; answer: Model.Audit; };
  "sweeps/{kind}/runs": {
    params: { kind: string; }; query?: { limit?: Maybe<number | string>; };
    answer: readonly Model.ProgressSummary[];
  };
  "queues": { answer: readonly Model.QueueView[]; };
  "queues/{name}": {
    params: { name: string; }; query?: { ask?: Maybe<boolean>; }; answer: Model.QueueDetail;
  };
  "queues/{name}/failed": {
    params: { name: string; }; query?: { limit?: Maybe<number | string>; };
    answer: readonly Model.FailedMessage[];
  };
  "flows": {
    query?: {
      flow?: Maybe<string>; status?: Maybe<"running" | "succeeded" | "failed" | "cancelled">;
      after?: Maybe<string>; limit?: Maybe<number | string>;
    };
    answer: Model.Page_FlowRunView_;
  };
  "flows/startable": { answer: readonly Model.StartableView[]; };
  "flows/{number}": {
    params: { number: number | string; }; query?: { around?: Maybe<string>; };
    answer: Model.FlowDetail;
  };
  "flows/{number}/nodes": {
    params: { number: number | string; };
    query?: {
      status?: Maybe<"waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled">;
      prefix?: Maybe<string>; after?: Maybe<string>; limit?: Maybe<number | string>;
    };
    answer: Model.FlowNodePage;
  };
  "flows/{number}/node": {
    params: { number: number | string; }; query: { name: string; }; answer: Model.FlowNodeDetail;
  };
  "flows/{number}/export": {
    params: { number: number | string; }; query?: { format?: Maybe<"mermaid" | "dot" | "json">; };
    answer: Model.ExportOut;
  };
  "templates": { answer: readonly Model.TemplateVersion[]; };
  "templates/{name}": {
    params: { name: string; }; query?: { version?: Maybe<number | string>; };
    answer: Model.TemplateView;
  };
  "templates/{name}/versions": {
    params: { name: string; };
    query?: { before?: Maybe<number | string>; limit?: Maybe<number | string>; };
    answer: readonly Model.TemplateVersion[];
  };
  "templates/{name}/export": {
    params: { name: string; };
    query?: { version?: Maybe<number | string>; format?: Maybe<"mermaid" | "dot" | "json">; };
    answer: Model.ExportOut;
  };
  "control": {
    query?: {
      name?: Maybe<string>;
      status?: Maybe<readonly ("failed" | "succeeded" | "running" | "ready")[]>;
      after?: Maybe<string>; limit?: Maybe<number | string>;
    };
    answer: Model.Page_RunView_;
  };
  "control/{name}": {
    params: { name: string; }; query?: { partition?: Maybe<string>; };
    answer: Model.ControlRunDetail;
  };
  "rings": { answer: Model.Rings; };
  "shards": { answer: readonly Model.ShardView[]; };
  "tasks": {
    query?: {
      kind?: Maybe<string>;
      status?: Maybe<"waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled">;
      key?: Maybe<string>; created_after?: Maybe<string>; created_before?: Maybe<string>;
      after?: Maybe<string>; limit?: Maybe<number | string>;
    };
    answer: Model.TaskListing_TaskLine;
  };
  "tasks/{number}": { params: { number: number | string; }; answer: Model.TaskDetail; };
  "tasks/{number}/result": {
    params: { number: number | string; }; query?: { wait?: Maybe<string>; };
    answer: Model.TaskResult;
  };
  "tasks/{number}/logs": {
    params: { number: number | string; }; query?: { search?: Maybe<string>; };
    answer: Model.TaskLogs;
  };
  "kinds/{kind}/form": { params: { kind: string; }; answer: Model.FormView; };
  "crons": { answer: Model.Page_CronView_; };
  "crons/{kind}": { params: { kind: string; }; answer: Model.CronDetail; };
  "ledgers": { answer: readonly Model.LedgerPlace[]; };
  "stock": {
    query?: {
      shard?: Maybe<string>; prefix?: Maybe<string>; sold_out?: Maybe<boolean>;
      after?: Maybe<string>; limit?: Maybe<number | string>;
    };
    answer: Model.LedgerPage_Stock_;
  };
  "deductions": {
    query?: {
      shard?: Maybe<string>;
      status?: Maybe<"held" | "deducted" | "refused" | "voided" | "lapsed">;
      prefix?: Maybe<string>; after?: Maybe<string>; limit?: Maybe<number | string>;
    };
    answer: Model.LedgerPage_ListedDeduction_;
  };
  "returns": {
    query?: {
      shard?: Maybe<string>; deduction?: Maybe<string>; after?: Maybe<string>;
      limit?: Maybe<number | string>;
    };
    answer: Model.LedgerPage_ListedReturn_;
  };
  "entries": {
    query?: {
      shard?: Maybe<string>; sku?: Maybe<string>; movement?: Maybe<Model.Movement>;
      after?: Maybe<string>; limit?: Maybe<number | string>;
    };
    answer: Model.LedgerPage_ListedEntry_;
  };
  "ledger/deductions/{id}/returns": {
    params: { id: string; }; query?: { shard?: Maybe<string>; }; answer: readonly Model.Return[];
  };
  "ledger/deductions/{id}": {
    params: { id: string; }; query?: { shard?: Maybe<string>; }; answer: Model.Deduction;
  };
  "ledger/stocks": {
    query?: { after?: Maybe<string>; limit?: Maybe<number | string>; shard?: Maybe<string>; };
    answer: readonly Model.Stock[];
  };
  "ledger/stocks/{sku}": {
    params: { sku: string; }; query?: { shard?: Maybe<string>; }; answer: Model.Stock;
  };
  "ledger/stocks/{sku}/entries": {
    params: { sku: string; };
    query?: {
      after?: Maybe<number | string>; limit?: Maybe<number | string>; shard?: Maybe<string>;
    };
    answer: readonly Model.Entry[];
  };
  "ledger/audit": { query?: { shard?: Maybe<string>; }; answer: Model.Audit; };
  "switches": { answer: readonly Model.SwitchView[]; };
  "pauses": { answer: readonly Model.PauseView[]; };
  "switches/{kind}": { params: { kind: string; }; answer: Model.SwitchView; };
  "downstreams": { answer: readonly Model.DownstreamView[]; };
  "downstreams/{name}": { params: { name: string; }; answer: Model.DownstreamView; };
  "promises": { answer: Model.Page_PromiseView_; };
  "promises/{kind}": { params: { kind: string; }; answer: Model.PromiseView; };
  "tokens": { answer: Model.Page_TokenView_; };
  "alerts": { query?: { limit?: Maybe<number | string>; }; answer: Model.Page_AlertView_; };
  "alerts/open": { answer: Model.OpenAlerts; };
  "alerts/{number}": { params: { number: number | string; }; answer: Model.AlertDetail; };
  "channels": { answer: readonly Model.ChannelView[]; };
  "audit": {
    query?: {
      who?: Maybe<string>; about?: Maybe<string>; after?: Maybe<string>;
      limit?: Maybe<number | string>;
    };
    answer: Model.Page_AuditEntry_;
  };
  "about": { answer: Model.About; };
  "health": { answer: Model.Health; };
  "changes": { answer: Model.Marks; };
  "events": { answer: unknown; };
}

export interface Post {
  "session": { body: Model.LogIn; answer: Model.SessionView; };
  "rolling/{kind}/visit": { params: { kind: string; }; body: Model.VisitBody; answer: Model.Item; };
  "rolling/{kind}/visit-soon": {
    params: { kind: string; }; body: Model.VisitSoonBody; answer: Model.ActionResult;
  };
  "rolling/{kind}/add": {
    params: { kind: string; }; body: Model.NewCodes; answer: Model.ActionResult;
  };
  "rolling/{kind}/remove": {
    params: { kind: string; }; body: Model.Codes; answer: Model.ActionResult;
  };
  "sweeps/{kind}/cancel": { params: { kind: string; }; answer: Model.ActionResult; };
  "sweeps/{kind}/split": {
    params: { kind: string; }; body: Model.Split; answer: Model.ActionResult;
  };
  "sweeps/{kind}/start": { params: { kind: string; }; answer: Model.ActionResult; };
  "sweeps/{kind}/retry": {
    params: { kind: string; }; body: Model.RetryItems; answer: Model.ActionResult;
  };
  "sweeps/{kind}/visit": {
    params: { kind: string; }; body: Model.VisitKey; answer: Model.SweepVisit;
  };
  "sweeps/{kind}/visit-soon": {
    params: { kind: string; }; body: Model.VisitKeySoon; answer: Model.ActionResult;
  };
  "queues/{name}/retry": {
    params: { name: string; }; body: Model.Messages; answer: Model.ActionResult;
  };
  "queues/{name}/drop": {
    params: { name: string; }; body: Model.Messages; answer: Model.ActionResult;
  };
  "flows": { body: Model.FlowStart; answer: Model.FlowStarted; };
  "flows/{number}/retry": {
    params: { number: number | string; }; body: Model.FlowRetry; answer: Model.ActionResult;
  };
  "flows/{number}/skip": {
    params: { number: number | string; }; body: Model.FlowSkip; answer: Model.ActionResult;
  };
  "flows/{number}/cancel": {
    params: { number: number | string; }; body: Model.FlowCancel; answer: Model.ActionResult;
  };
  "flows/{number}/edit": {
    params: { number: number | string; }; body: Model.FlowEdit; answer: Model.ActionResult;
  };
  "templates/{name}": {
    params: { name: string; }; body: Model.TemplateSpec; answer: Model.TemplateView;
  };
  "templates/{name}/check": {
    params: { name: string; }; body: Model.TemplateSpec; answer: Model.Checked;
  };
  "control/{name}/start": {
    params: { name: string; }; body: Model.ControlStart; answer: Model.Reply;
  };
  "control/{name}/step": {
    params: { name: string; }; body: Model.ControlStep; answer: Model.Reply;
  };
  "control/{name}/note": {
    params: { name: string; }; body: Model.ControlNote; answer: Model.Reply;
  };
  "control/{name}/finish": {
    params: { name: string; }; body: Model.ControlFinish; answer: Model.Reply;
  };
  "control/{name}/error": {
    params: { name: string; }; body: Model.ControlError; answer: Model.Reply;
  };
  "control/{name}/release": {
    params: { name: string; }; body: Model.Which; answer: Model.ActionResult;
  };
  "control/{name}/reset": {
    params: { name: string; }; body: Model.Which; answer: Model.ActionResult;
  };
  "tasks": { body: Model.TaskNew; answer: Model.TaskMade; };
  "tasks/many": { body: Model.TasksNew; answer: Model.TasksMade; };
  "tasks/retry": { body: Model.BulkRetry; answer: Model.Bulk; };
  "tasks/cancel": { body: Model.BulkCancel; answer: Model.Bulk; };
  "tasks/{number}/retry": { params: { number: number | string; }; answer: Model.ActionResult; };
  "tasks/{number}/cancel": {
    params: { number: number | string; }; body: Model.CancelTask; answer: Model.ActionResult;
  };
  "crons/{kind}/run": { params: { kind: string; }; answer: Model.CronStarted; };
  "crons/{kind}/set": {
    params: { kind: string; }; body: Model.SetSchedule; answer: Model.CronDetail;
  };
  "crons/{kind}/reset": { params: { kind: string; }; answer: Model.CronDetail; };
  "notify": { body: Model.ExternalEnd; answer: Model.CallbackAnswer; };
  "ledger/restocks": {
    query?: { shard?: Maybe<string>; }; body: Model.MovementBody; answer: Model.Receipt;
  };
  "ledger/adjustments": {
    query?: { shard?: Maybe<string>; }; body: Model.AdjustmentBody; answer: Model.Receipt;
  };
  "ledger/deductions": {
    query?: { shard?: Maybe<string>; }; body: Model.DeductionBody; answer: Model.Deduction;
  };
  "ledger/deductions/{id}/returns": {
    params: { id: string; }; query?: { shard?: Maybe<string>; }; body: Model.MovementBody;
    answer: Model.Return;
  };
  "ledger/deductions/{id}/exchanges": {
    params: { id: string; }; query?: { shard?: Maybe<string>; }; body: Model.ExchangeBody;
    answer: Model.Return;
  };
  "ledger/deductions/{id}/void": {
    params: { id: string; }; query?: { shard?: Maybe<string>; }; answer: Model.Return;
  };
  "ledger/deductions/{id}/confirm": {
    params: { id: string; }; query?: { shard?: Maybe<string>; }; answer: Model.Confirmation;
  };
  "pause": { body: Model.PauseAll; answer: readonly Model.PauseView[]; };
  "resume": { body: Model.ResumeAll; answer: readonly Model.PauseView[]; };
  "switches/{kind}/pause": {
    params: { kind: string; }; body: Model.PauseKind; answer: Model.SwitchView;
  };
  "switches/{kind}/resume": { params: { kind: string; }; answer: Model.SwitchView; };
  "switches/{kind}/close-breaker": { params: { kind: string; }; answer: Model.SwitchView; };
  "switches/{kind}/set": {
    params: { kind: string; }; body: Model.SetKind; answer: Model.SwitchView;
  };
  "tokens": { body: Model.CreateToken; answer: Model.NewToken; };
  "tokens/{name}/revoke": { params: { name: string; }; answer: Model.TokenView; };
  "channels/{name}/test": { params: { name: string; }; answer: Model.ActionResult; };
  "alerts/{number}/acknowledge": {
    params: { number: number | string; }; body: Model.Acknowledge; answer: Model.ActionResult;
  };
  "alerts/{number}/recall": { params: { number: number | string; }; answer: Model.ActionResult; };
}

export interface Delete {
  "session": { answer: Model.SessionView; };
}

// Made by `make console-types` from the OpenAPI document of the API.

import type * as Model from "./model";

type Maybe<T> = T | null | undefined;

export interface Get {
  "session": { answer: Model.SessionView; };
  "overview": { answer: Model.Overview; };
  "kinds": { answer: readonly Model.KindOut[]; };
  "kinds/{kind}": { params: { kind: string; }; answer: Model.KindDetail; };
  "rolling": { answer: readonly Model.FreshnessOut[]; };
  "rolling/{kind}": { params: { kind: string; }; answer: Model.RollingDetail; };
  "rolling/{kind}/items": {
    params: { kind: string; };
    query?: { prefix?: Maybe<string>; after?: Maybe<string>; limit?: Maybe<number | string>; };
    answer: Model.Page_ItemOut_;
  };
  "rolling/{kind}/item": {
    params: { kind: string; }; query: { code: string; }; answer: Model.ItemOut;
  };
  "sweeps": { answer: readonly Model.SweepOut[]; };
  "sweeps/{kind}": { params: { kind: string; }; answer: Model.SweepDetail; };
  "sweeps/{kind}/rounds": {
    params: { kind: string; }; query?: { limit?: Maybe<number | string>; };
    answer: readonly Model.RoundOut[];
  };
  "sweeps/{kind}/failures": {
    params: { kind: string; }; query?: { limit?: Maybe<number | string>; };
    answer: readonly Model.AsideOut[];
  };
  "sweeps/{kind}/audit": { params: { kind: string; }; answer: Model.AuditOut; };
  "flows": {
    query?: {
      flow?: Maybe<string>; status?: Maybe<"running" | "succeeded" | "failed" | "cancelled">;
      after?: Maybe<string>; limit?: Maybe<number | string>;
    };
    answer: Model.FlowPage;
  };
  "flows/startable": { answer: readonly Model.StartableOut[]; };
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
  "templates": { answer: readonly Model.VersionOut[]; };
  "templates/{name}": {
    params: { name: string; }; query?: { version?: Maybe<number | string>; };
    answer: Model.TemplateOut;
  };
  "templates/{name}/versions": {
    params: { name: string; };
    query?: { before?: Maybe<number | string>; limit?: Maybe<number | string>; };
    answer: readonly Model.VersionOut[];
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
    answer: Model.Page_RunOut_;
  };
  "control/{name}": {
    params: { name: string; }; query?: { partition?: Maybe<string>; }; answer: Model.RunDetail;
  };
  "rings": { answer: Model.RingsOut; };
  "shards": { answer: readonly Model.ShardOut[]; };
  "tasks": {
    query?: {
      kind?: Maybe<string>;
      status?: Maybe<"waiting" | "running" | "succeeded" | "failed" | "blocked" | "external" | "cancelled">;
      key?: Maybe<string>; created_after?: Maybe<string>; created_before?: Maybe<string>;
      after?: Maybe<string>; limit?: Maybe<number | string>;
    };
    answer: Model.TaskPage;
  };
  "tasks/{number}": { params: { number: number | string; }; answer: Model.TaskDetailOut; };
  "ledgers": { answer: readonly Model.LedgerPlace[]; };
  "stock": {
    query?: {
      shard?: Maybe<string>; prefix?: Maybe<string>; sold_out?: Maybe<boolean>;
      after?: Maybe<string>; limit?: Maybe<number | string>;
    };
    answer: Model.StockPage;
  };
  "deductions": {
    query?: {
      shard?: Maybe<string>;
      status?: Maybe<"held" | "deducted" | "refused" | "voided" | "lapsed">;
      prefix?: Maybe<string>; after?: Maybe<string>; limit?: Maybe<number | string>;
    };
    answer: Model.DeductionPage;
  };
  "returns": {
    query?: {
      shard?: Maybe<string>; deduction?: Maybe<string>; after?: Maybe<string>;
      limit?: Maybe<number | string>;
    };
    answer: Model.ReturnPage;
  };
  "entries": {
    query?: {
      shard?: Maybe<string>; sku?: Maybe<string>;
      movement?: Maybe<"restock" | "adjust" | "deduct" | "return" | "void" | "lapse">;
      after?: Maybe<string>; limit?: Maybe<number | string>;
    };
    answer: Model.EntryPage;
  };
  "ledger/deductions/{id}/returns": {
    params: { id: string; }; query?: { shard?: Maybe<string>; };
    answer: readonly Model.ReturnView[];
  };
  "ledger/deductions/{id}": {
    params: { id: string; }; query?: { shard?: Maybe<string>; }; answer: Model.DeductionView;
  };
  "ledger/stocks": {
    query?: { shard?: Maybe<string>; after?: Maybe<string>; limit?: Maybe<number | string>; };
    answer: readonly Model.StockView[];
  };
  "ledger/stocks/{sku}": {
    params: { sku: string; }; query?: { shard?: Maybe<string>; }; answer: Model.StockView;
  };
  "ledger/stocks/{sku}/entries": {
    params: { sku: string; };
    query?: {
      shard?: Maybe<string>; after?: Maybe<number | string>; limit?: Maybe<number | string>;
    };
    answer: readonly Model.EntryView[];
  };
  "ledger/audit": { query?: { shard?: Maybe<string>; }; answer: Model.AuditView; };
  "switches": { answer: readonly Model.SwitchOut[]; };
  "switches/{kind}": { params: { kind: string; }; answer: Model.SwitchOut; };
  "alerts": { query?: { limit?: Maybe<number | string>; }; answer: Model.Page_AlertOut_; };
  "alerts/open": { answer: Model.OpenAlerts; };
  "audit": {
    query?: {
      who?: Maybe<string>; about?: Maybe<string>; after?: Maybe<string>;
      limit?: Maybe<number | string>;
    };
    answer: Model.Page_DeedOut_;
  };
  "about": { answer: Model.About; };
  "health": { answer: Model.Health; };
  "changes": { answer: Model.Marks; };
  "events": { answer: unknown; };
}

export interface Post {
  "session": { body: Model.LogIn; answer: Model.SessionView; };
  "rolling/{kind}/visit": { params: { kind: string; }; body: Model.Visit; answer: Model.ItemOut; };
  "rolling/{kind}/add": { params: { kind: string; }; body: Model.NewCodes; answer: Model.Done; };
  "rolling/{kind}/remove": { params: { kind: string; }; body: Model.Codes; answer: Model.Done; };
  "sweeps/{kind}/split": { params: { kind: string; }; body: Model.Split; answer: Model.Done; };
  "sweeps/{kind}/start": { params: { kind: string; }; answer: Model.Done; };
  "sweeps/{kind}/retry": { params: { kind: string; }; body: Model.Retry; answer: Model.Done; };
  "flows": { body: Model.FlowStart; answer: Model.FlowStarted; };
  "flows/{number}/retry": {
    params: { number: number | string; }; body: Model.FlowRetry; answer: Model.Done;
  };
  "flows/{number}/skip": {
    params: { number: number | string; }; body: Model.FlowSkip; answer: Model.Done;
  };
  "flows/{number}/cancel": {
    params: { number: number | string; }; body: Model.FlowCancel; answer: Model.Done;
  };
  "flows/{number}/edit": {
    params: { number: number | string; }; body: Model.FlowEdit; answer: Model.Done;
  };
  "templates/{name}": {
    params: { name: string; }; body: Model.TemplateSpec; answer: Model.TemplateOut;
  };
  "templates/{name}/check": {
    params: { name: string; }; body: Model.TemplateSpec; answer: Model.Checked;
  };
  "control/{name}/release": { params: { name: string; }; body: Model.Which; answer: Model.Done; };
  "control/{name}/reset": { params: { name: string; }; body: Model.Which; answer: Model.Done; };
  "tasks/retry": { body: Model.BulkRetry; answer: Model.BulkDone; };
  "tasks/cancel": { body: Model.BulkCancel; answer: Model.BulkDone; };
  "tasks/{number}/retry": { params: { number: number | string; }; answer: Model.Done; };
  "tasks/{number}/cancel": {
    params: { number: number | string; }; body: Model.Cancel; answer: Model.Done;
  };
  "ledger/restocks": {
    query?: { shard?: Maybe<string>; }; body: Model.MovementBody; answer: Model.ReceiptView;
  };
  "ledger/adjustments": {
    query?: { shard?: Maybe<string>; }; body: Model.AdjustmentBody; answer: Model.ReceiptView;
  };
  "ledger/deductions": {
    query?: { shard?: Maybe<string>; }; body: Model.DeductionBody; answer: Model.DeductionView;
  };
  "ledger/deductions/{id}/returns": {
    params: { id: string; }; query?: { shard?: Maybe<string>; }; body: Model.MovementBody;
    answer: Model.ReturnView;
  };
  "ledger/deductions/{id}/void": {
    params: { id: string; }; query?: { shard?: Maybe<string>; }; answer: Model.ReturnView;
  };
  "ledger/deductions/{id}/confirm": {
    params: { id: string; }; query?: { shard?: Maybe<string>; }; answer: Model.ConfirmationView;
  };
  "switches/{kind}/pause": {
    params: { kind: string; }; body: Model.Pause; answer: Model.SwitchOut;
  };
  "switches/{kind}/resume": { params: { kind: string; }; answer: Model.SwitchOut; };
  "switches/{kind}/close-breaker": { params: { kind: string; }; answer: Model.SwitchOut; };
  "switches/{kind}/set": { params: { kind: string; }; body: Model.Set; answer: Model.SwitchOut; };
  "alerts/{number}/acknowledge": {
    params: { number: number | string; }; body: Model.Acknowledge; answer: Model.Done;
  };
  "alerts/{number}/recall": { params: { number: number | string; }; answer: Model.Done; };
}

export interface Delete {
  "session": { answer: Model.SessionView; };
}

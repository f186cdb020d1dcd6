/** Flows as the console wants them told; `make console-types` takes over when the API has them. */

export interface FlowRunOut {
  id: number;
  kind: string;
  key: string | null;
  status: string;
  /** How many nodes are in which status. */
  counts: Readonly<Record<string, number>>;
  created_at: string;
  finished_at: string | null;
  remark: string | null;
}

export interface FlowNodeOut {
  id: number;
  name: string;
  kind: string;
  status: string;
  rule: string;
  attempt: number;
  open_slots: number;
  due_at: string | null;
  started_at: string | null;
  finished_at: string | null;
  error: string | null;
  result: string | null;
}

export interface FlowDetailOut {
  run: FlowRunOut;
  nodes: readonly FlowNodeOut[];
  edges: readonly (readonly [string, string])[];
}

export interface FlowPageOut {
  items: readonly FlowRunOut[];
  next: string | null;
  missing: readonly string[];
}

export interface TemplateNode {
  name: string;
  kind: string;
  args?: readonly unknown[];
  kwargs?: Readonly<Record<string, unknown>>;
  trigger?: string;
  when?: string | null;
}

export interface TemplateSpec {
  nodes: readonly TemplateNode[];
  edges: readonly (readonly [string, string])[];
}

export interface TemplateOut {
  name: string;
  version: number;
  saved_at: string;
  spec: TemplateSpec;
}

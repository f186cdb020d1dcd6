/** A template while it is drawn: what may be done to it, and what is wrong with it. */
import type { TemplateSpec } from "../../api/flow";
import { circleIn, type Edge } from "../../part/graph-shape";
import type { Dictionary } from "../../text/en";

export interface DraftNode {
  readonly name: string;
  readonly kind: string;
  /** The keyword arguments as they were typed. */
  readonly kwargs: string;
  readonly trigger: string;
  readonly when: string;
  readonly args: readonly unknown[];
}

export interface Draft {
  readonly nodes: readonly DraftNode[];
  readonly edges: readonly Edge[];
}

export const EMPTY: Draft = { nodes: [], edges: [] };

export function draftOf(spec: TemplateSpec): Draft {
  const nodes = spec.nodes.map((node) => ({
    name: node.name,
    kind: node.kind,
    kwargs: JSON.stringify(node.kwargs ?? {}, null, 2),
    trigger: node.trigger ?? "all_success",
    when: node.when ?? "",
    args: node.args ?? [],
  }));
  return { nodes, edges: spec.edges };
}

/** The template as it is saved; call it only if nothing is wrong. */
export function specOf(draft: Draft): TemplateSpec {
  const nodes = draft.nodes.map((node) => ({
    name: node.name,
    kind: node.kind,
    ...(node.args.length > 0 ? { args: node.args } : {}),
    kwargs: kwargsOf(node) ?? {},
    trigger: node.trigger,
    ...(node.when === "" ? {} : { when: node.when }),
  }));
  return { nodes, edges: draft.edges };
}

/** A new node, under a name that no other has. */
export function withNode(draft: Draft, kind: string): Draft {
  const names = new Set(draft.nodes.map((node) => node.name));
  let name = kind;
  for (let number = 2; names.has(name); number += 1) name = `${kind}-${number}`;
  const node = { name, kind, kwargs: "{}", trigger: "all_success", when: "", args: [] };
  return { ...draft, nodes: [...draft.nodes, node] };
}

/** A node that was changed; if its name was, its edges follow. */
export function withChange(draft: Draft, name: string, change: Partial<DraftNode>): Draft {
  const nodes = draft.nodes.map((node) => (node.name === name ? { ...node, ...change } : node));
  const now = change.name ?? name;
  const renamed = (each: string) => (each === name ? now : each);
  const edges = draft.edges.map(([from, to]): Edge => [renamed(from), renamed(to)]);
  return { nodes, edges };
}

export function withoutNode(draft: Draft, name: string): Draft {
  return {
    nodes: draft.nodes.filter((node) => node.name !== name),
    edges: draft.edges.filter(([from, to]) => from !== name && to !== name),
  };
}

export function withEdge(draft: Draft, edge: Edge): Draft {
  const isKnown = draft.edges.some(([from, to]) => from === edge[0] && to === edge[1]);
  return isKnown || edge[0] === edge[1] ? draft : { ...draft, edges: [...draft.edges, edge] };
}

export function withoutEdge(draft: Draft, edge: Edge): Draft {
  return {
    ...draft,
    edges: draft.edges.filter(([from, to]) => from !== edge[0] || to !== edge[1]),
  };
}

/** What is wrong, in words; nothing if it can be saved. */
export function problemsOf(draft: Draft, t: Dictionary["flow"]): readonly string[] {
  const names = draft.nodes.map((node) => node.name);
  const twice = names.filter((name, index) => name !== "" && names.indexOf(name) !== index);
  const circle = circleIn(names, draft.edges);
  return [
    ...(names.length === 0 ? [t.empty] : []),
    ...(names.includes("") ? [t.unnamed] : []),
    ...[...new Set(twice)].map((name) => t.twice(name)),
    ...(circle.length > 0 ? [t.circle([...circle, circle[0]].join(" → "))] : []),
    ...draft.nodes.filter((node) => kwargsOf(node) === null).map((node) => t.badJson(node.name)),
  ];
}

function kwargsOf(node: DraftNode): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(node.kwargs.trim() || "{}");
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

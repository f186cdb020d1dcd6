/** A template in the editor: how it changes, and what is wrong with it. */
import type { Answer } from "../../../api/call";
import type { Post } from "../../../api/path";
import { circleIn, type Edge } from "../../../part/picture/graph-shape";
import type { Dictionary } from "../../../text/en";

type Saved = Answer<"templates/{name}">["spec"];
export type Spec = Post["templates/{name}"]["body"];
export type Trigger = NonNullable<Spec["nodes"][number]["trigger"]>;

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

export function isEqual(one: Draft, other: Draft): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

export function draftOf(spec: Saved): Draft {
  const nodes = spec.nodes.map((node) => ({
    name: node.name,
    kind: node.kind,
    kwargs: JSON.stringify(node.kwargs, null, 2),
    trigger: node.trigger,
    when: node.when ?? "",
    args: node.args,
  }));
  return { nodes, edges: spec.edges };
}

/** The template as the API takes it; call it only if nothing is wrong. */
export function specOf(draft: Draft): Spec {
  const nodes = draft.nodes.map((node) => ({
    name: node.name,
    kind: node.kind,
    ...(node.args.length > 0 ? { args: node.args } : {}),
    kwargs: kwargsOf(node.kwargs) ?? {},
    trigger: node.trigger as Trigger,
    ...(node.when.trim() === "" ? {} : { when: node.when.trim() }),
  }));
  return { nodes, edges: draft.edges };
}

/** A new node, under a name that no other has. */
export function newNode(taken: Iterable<string>, kind: string): DraftNode {
  const names = new Set(taken);
  // A slash separates a nested flow from its nodes.
  const base = kind.replaceAll("/", "-");
  let name = base;
  for (let number = 2; names.has(name); number += 1) name = `${base}-${number}`;
  return { name, kind, kwargs: "{}", trigger: "all_success", when: "", args: [] };
}

export function withNode(draft: Draft, kind: string): Draft {
  const names = draft.nodes.map((node) => node.name);
  return { ...draft, nodes: [...draft.nodes, newNode(names, kind)] };
}

/** Change a node; a new name also changes its edges and the arguments that use its result. */
export function withChange(draft: Draft, name: string, change: Partial<DraftNode>): Draft {
  const now = change.name ?? name;
  const nodes = draft.nodes.map((node) =>
    node.name === name ? { ...node, ...change } : renamedIn(node, name, now),
  );
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
  const isKnown = draft.edges.some((each) => isSame(each, edge));
  return isKnown || edge[0] === edge[1] ? draft : { ...draft, edges: [...draft.edges, edge] };
}

export function withoutEdge(draft: Draft, edge: Edge): Draft {
  return { ...draft, edges: draft.edges.filter((each) => !isSame(each, edge)) };
}

export function isSame(one: Edge, other: Edge): boolean {
  return one[0] === other[0] && one[1] === other[1];
}

/** The nodes that have ended before a node starts, so that it can use their results. */
export function above(edges: readonly Edge[], name: string): readonly string[] {
  const found = new Set<string>();
  const queue = [name];
  for (let now = queue.pop(); now !== undefined; now = queue.pop())
    for (const [from, to] of edges)
      if (to === now && !found.has(from)) {
        found.add(from);
        queue.push(from);
      }
  found.delete(name);
  return [...found].sort();
}

/** What is wrong, in words; empty if it can be sent. */
export function problemsOf(draft: Draft, t: Dictionary["flow"]): readonly string[] {
  const names = draft.nodes.map((node) => node.name);
  const twice = names.filter((name, index) => name !== "" && names.indexOf(name) !== index);
  const circle = circleIn(names, draft.edges);
  return [
    ...(names.length === 0 ? [t.empty] : []),
    ...(names.includes("") ? [t.unnamed] : []),
    ...[...new Set(twice)].map((name) => t.twice(name)),
    ...(circle.length > 0 ? [t.circle([...circle, circle[0]].join(" → "))] : []),
    ...draft.nodes
      .filter((node) => kwargsOf(node.kwargs) === null)
      .map((node) => t.badJson(node.name)),
  ];
}

/** The typed text as an object; null if it is not one. */
export function kwargsOf(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text.trim() || "{}");
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

/** The arguments with one value replaced, or removed if it is undefined. */
export function withArgument(text: string, name: string, value: unknown): string {
  const rest = Object.entries(kwargsOf(text) ?? {});
  const isKnown = rest.some(([each]) => each === name);
  const made = isKnown
    ? rest.map(([each, before]) => [each, each === name ? value : before] as const)
    : [...rest, [name, value] as const];
  return JSON.stringify(Object.fromEntries(made), null, 2);
}

function renamedIn(node: DraftNode, before: string, now: string): DraftNode {
  const kwargs = kwargsOf(node.kwargs);
  if (before === now || kwargs === null || !node.kwargs.includes("$result")) return node;
  const renamed = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(renamed);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, part]) => [
        key,
        key === "$result" && part === before ? now : renamed(part),
      ]),
    );
  };
  return { ...node, kwargs: JSON.stringify(renamed(kwargs), null, 2) };
}

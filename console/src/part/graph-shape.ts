/** Where the nodes of a graph are: in layers, from left to right, with few crossings. */
import dagre from "@dagrejs/dagre";

export const NODE_WIDTH = 180;
export const NODE_HEIGHT = 58;

export type Edge = readonly [string, string];

export interface Place {
  readonly x: number;
  readonly y: number;
}

/** The upper left corner of each node. */
export function layout(
  names: readonly string[],
  edges: readonly Edge[],
): ReadonlyMap<string, Place> {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 22, ranksep: 48, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const name of names) graph.setNode(name, { width: NODE_WIDTH, height: NODE_HEIGHT });
  for (const [from, to] of edges)
    if (graph.hasNode(from) && graph.hasNode(to)) graph.setEdge(from, to);
  dagre.layout(graph);
  return new Map(
    names.map((name) => {
      const { x, y } = graph.node(name) as Place;
      return [name, { x: x - NODE_WIDTH / 2, y: y - NODE_HEIGHT / 2 }];
    }),
  );
}

/** The names of a circle, in order, or none if there is no circle. */
export function circleIn(names: readonly string[], edges: readonly Edge[]): readonly string[] {
  const after = new Map<string, string[]>(names.map((name) => [name, []]));
  for (const [from, to] of edges) after.get(from)?.push(to);
  const done = new Set<string>();
  const path: string[] = [];
  const walk = (name: string): readonly string[] | null => {
    const at = path.indexOf(name);
    if (at >= 0) return path.slice(at);
    if (done.has(name)) return null;
    path.push(name);
    for (const next of after.get(name) ?? []) {
      const found = walk(next);
      if (found) return found;
    }
    path.pop();
    done.add(name);
    return null;
  };
  for (const name of names) {
    const found = walk(name);
    if (found) return found;
  }
  return [];
}

/** The layout of a graph: layers from left to right, with few crossings. */
import dagre from "@dagrejs/dagre";

export const NODE_WIDTH = 196;
export const NODE_HEIGHT = 56;
const GAP = 20;
const LAYER_GAP = 52;
const LONGEST_LINE = 14;

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
  graph.setGraph({ rankdir: "LR", nodesep: GAP, ranksep: LAYER_GAP, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const name of names) graph.setNode(name, { width: NODE_WIDTH, height: NODE_HEIGHT });
  for (const [from, to] of edges)
    if (graph.hasNode(from) && graph.hasNode(to)) graph.setEdge(from, to);
  dagre.layout(graph);
  const places = new Map(
    names.map((name) => {
      const { x, y } = graph.node(name) as Place;
      return [name, { x: x - NODE_WIDTH / 2, y: y - NODE_HEIGHT / 2 }];
    }),
  );
  return folded(places);
}

/** The same, but layers that are too long for one line become blocks. */
export function folded(places: ReadonlyMap<string, Place>): ReadonlyMap<string, Place> {
  const layers = new Map<number, [string, Place][]>();
  for (const each of places) {
    const x = Math.round(each[1].x);
    layers.set(x, [...(layers.get(x) ?? []), each]);
  }
  if ([...layers.values()].every((layer) => layer.length <= LONGEST_LINE)) return places;
  const found = new Map<string, Place>();
  let left = 0;
  for (const x of [...layers.keys()].sort((one, other) => one - other)) {
    const layer = (layers.get(x) ?? []).sort(([, one], [, other]) => one.y - other.y);
    const rows = Math.min(layer.length, Math.max(LONGEST_LINE, Math.ceil(Math.sqrt(layer.length))));
    layer.forEach(([name], index) => {
      const column = Math.floor(index / rows);
      const inColumn = Math.min(rows, layer.length - column * rows);
      const y = ((index % rows) - (inColumn - 1) / 2) * (NODE_HEIGHT + GAP);
      found.set(name, { x: left + column * (NODE_WIDTH + GAP), y });
    });
    left += Math.ceil(layer.length / rows) * (NODE_WIDTH + GAP) + LAYER_GAP;
  }
  return found;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** How much room all nodes take. */
export function sizeOf(places: ReadonlyMap<string, Place>): Size {
  const all = [...places.values()];
  if (all.length === 0) return { width: 0, height: 0 };
  const extent = (pick: (place: Place) => number) =>
    Math.max(...all.map(pick)) - Math.min(...all.map(pick));
  return {
    width: extent((place) => place.x) + NODE_WIDTH,
    height: extent((place) => place.y) + NODE_HEIGHT,
  };
}

/** Of the edges out of nested flows, only those from their last nodes. */
export function ends(inside: readonly Edge[], edges: readonly Edge[]): readonly Edge[] {
  const groups = new Map(inside);
  const goesOn = new Set(
    edges.filter(([from, to]) => groups.get(from) === groups.get(to)).map(([from]) => from),
  );
  return inside.filter(([member]) => !goesOn.has(member));
}

/** The names of a circle, in order; empty if there is no circle. */
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

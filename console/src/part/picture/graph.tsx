/** A graph of nodes and edges with automatic layout; edges can be drawn if the page allows it. */
import {
  Background,
  Controls,
  Handle,
  MarkerType,
  MiniMap,
  Position,
  ReactFlow,
  type Connection,
  type Edge as FlowEdge,
  type Node,
  type NodeChange,
  type NodeProps,
  type ReactFlowInstance,
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import "../../style/graph.css";
import { memo, useEffect, useMemo, useState } from "react";
import { useText } from "../../text";
import {
  ends,
  layout,
  NODE_HEIGHT,
  NODE_WIDTH,
  sizeOf,
  type Edge,
  type Place,
} from "./graph-shape";
import { Icon } from "../icon";
import { iconOf, toneOf } from "../status";
import { useWidth } from "./width";

export interface GraphNode {
  readonly name: string;
  readonly kind: string;
  readonly status?: string;
  /** How many slots it has, and how many of them are open. */
  readonly slots?: number;
  readonly open?: number;
  /** How long it took, or another note. */
  readonly note?: string;
  /** Whether it is about to be added. */
  readonly isNew?: boolean;
  /** Whether no edge can be drawn to it. */
  readonly isFixed?: boolean;
}

interface GraphProps {
  label: string;
  nodes: readonly GraphNode[];
  edges: readonly Edge[];
  /** Edges from what is inside a nested flow to the node that this is. */
  inside?: readonly Edge[];
  selected: string | null;
  onSelect: (name: string | null) => void;
  /** Present if edges can be drawn. */
  onConnect?: (edge: Edge) => void;
  onDisconnect?: (edge: Edge) => void;
}

type Drawn = Node<Record<"node", GraphNode> & Record<"isDrawable", boolean>, "node">;

const TYPES = { node: memo(NodeBox) };
const MANY = 30;
const SIDE = 24;
// Room below the graph for its buttons and its map.
const BELOW = 56;
const BELOW_MANY = 116;

export function Graph({
  label,
  nodes,
  edges,
  inside = [],
  selected,
  onSelect,
  onConnect,
  onDisconnect,
}: GraphProps) {
  const { t } = useText();
  const [instance, setInstance] = useState<ReactFlowInstance<Drawn>>();
  const shape = JSON.stringify({ names: nodes.map((node) => node.name), edges, inside });
  // The layout depends on names and edges only: a node that changes its status stays in place.
  const places = useMemo(() => {
    const drawn = JSON.parse(shape) as { names: string[]; edges: Edge[]; inside: Edge[] };
    const last = ends(drawn.inside, drawn.edges);
    return { last, at: layout(drawn.names, [...drawn.edges, ...last]) };
  }, [shape]);
  const [frame, width] = useWidth<HTMLDivElement>();
  const size = sizeOf(places.at);
  const below = nodes.length > MANY ? BELOW_MANY : BELOW;
  const zoom = Math.min(1, (width - 2 * SIDE) / Math.max(1, size.width));
  const height = Math.round(size.height * zoom) + SIDE + below;
  const fit = useMemo(() => fitOf(below), [below]);
  useEffect(() => {
    const next = requestAnimationFrame(() => void instance?.fitView(fit));
    return () => cancelAnimationFrame(next);
  }, [instance, places, width, fit]);
  const statuses = new Map(nodes.map((node) => [node.name, node.status]));
  const isDrawable = onConnect !== undefined;
  const words: Readonly<Record<string, string>> = t.status;
  const connect = ({ source, target }: Connection) => onConnect?.([source, target]);
  const change = (changes: readonly NodeChange<Drawn>[]) => {
    // Selected by keyboard; a click has its own handler.
    const picked = changes.find((each) => each.type === "select" && each.selected);
    if (picked?.type === "select") onSelect(picked.id);
  };
  return (
    <div className="graph" ref={frame} style={{ height: `clamp(240px, ${height}px, 64vh)` }}>
      <ReactFlow<Drawn>
        aria-label={label}
        nodes={nodes.map((node) => ({
          ...drawn(node, places.at.get(node.name), selected, isDrawable),
          ariaLabel: `${node.name}: ${words[node.status ?? ""] ?? node.kind}`,
        }))}
        edges={[
          ...edges.map((edge) => line(edge, statuses, isDrawable)),
          ...places.last.map((edge) => ({ ...line(edge, statuses, false), className: "inside" })),
        ]}
        nodeTypes={TYPES}
        nodesDraggable={false}
        nodesConnectable={isDrawable}
        edgesFocusable={isDrawable}
        deleteKeyCode={null}
        onlyRenderVisibleElements={nodes.length > MANY}
        minZoom={0.05}
        maxZoom={1.5}
        fitView
        fitViewOptions={fit}
        proOptions={{ hideAttribution: true }}
        onInit={setInstance}
        onConnect={connect}
        isValidConnection={({ source, target }) =>
          source !== target && !nodes.find((node) => node.name === target)?.isFixed
        }
        onNodesChange={change}
        onNodeClick={(_, node) => onSelect(node.id)}
        onPaneClick={() => onSelect(null)}
        onEdgeClick={(_, edge) => onDisconnect?.([edge.source, edge.target])}
      >
        <Background gap={20} size={1} />
        <Controls showInteractive={false} orientation="horizontal" />
        {nodes.length > MANY && (
          <MiniMap<Drawn>
            pannable
            zoomable
            ariaLabel={label}
            nodeClassName={({ data }) => `tone-${toneOf(data.node.status ?? "")}`}
          />
        )}
      </ReactFlow>
    </div>
  );
}

function drawn(
  node: GraphNode,
  place: Place | undefined,
  selected: string | null,
  isDrawable: boolean,
): Drawn {
  return {
    id: node.name,
    type: "node",
    position: place ?? { x: 0, y: 0 },
    data: { node, isDrawable },
    width: NODE_WIDTH,
    height: NODE_HEIGHT,
    selected: node.name === selected,
  };
}

function fitOf(below: number) {
  const side = `${SIDE}px` as const;
  const padding = { top: side, right: side, bottom: `${below}px` as const, left: side };
  return { maxZoom: 1, padding };
}

const STATES: Readonly<Record<string, string>> = {
  succeeded: "filled",
  failed: "broken",
  cancelled: "broken",
};

type Statuses = ReadonlyMap<string, string | undefined>;

function line([source, target]: Edge, statuses: Statuses, isDrawable: boolean): FlowEdge {
  const status = statuses.get(source);
  const state = STATES[status ?? ""] ?? (status === undefined ? "plain" : "open");
  return {
    id: `${source}\n${target}`,
    source,
    target,
    className: `${state} ${isDrawable ? "removable" : ""} ${status === "running" ? "flowing" : ""}`,
    markerEnd: { type: MarkerType.ArrowClosed, width: 16, height: 16, color: "var(--faint)" },
  };
}

function NodeBox({ data, selected }: NodeProps<Drawn>) {
  const { t } = useText();
  const { isDrawable } = data;
  const { name, kind, status, slots = 0, open = 0, note, isNew, isFixed = false } = data.node;
  const words: Readonly<Record<string, string>> = t.status;
  // A node of a nested flow has the flow's name in front.
  const parts = name.split("/");
  const last = parts.at(-1) ?? name;
  const group = parts.slice(0, -1).join("/");
  const line = [group, kind === last ? "" : kind, note].filter(Boolean).join(" · ");
  const names = [
    "graph-node",
    `tone-${toneOf(status ?? "")}`,
    status ?? "plain",
    selected && "on",
    isNew && "new",
  ];
  return (
    <div className={names.filter(Boolean).join(" ")} title={`${name}\n${kind}`}>
      <Handle type="target" position={Position.Left} isConnectable={isDrawable && !isFixed} />
      {status && <Icon name={iconOf(status)} label={words[status] ?? status} />}
      <span className="graph-words">
        <b>{last}</b>
        {(line || open > 0) && (
          <small>
            {open > 0 && <Slots slots={slots} open={open} />}
            <span>{line}</span>
          </small>
        )}
      </span>
      <Handle type="source" position={Position.Right} isConnectable={isDrawable} />
    </div>
  );
}

const MOST_DOTS = 8;

/** The slots of a waiting node: filled and open. */
function Slots({ slots, open }: { slots: number; open: number }) {
  const { t } = useText();
  const label = t.flow.slots(open, slots);
  if (slots > MOST_DOTS)
    return (
      <span className="slots" title={label}>
        {slots - open}/{slots}
      </span>
    );
  return (
    <span className="slot-dots" role="img" aria-label={label} title={label}>
      {Array.from({ length: slots }, (_, index) => (
        <i key={index} className={index < slots - open ? "filled" : ""} />
      ))}
    </span>
  );
}

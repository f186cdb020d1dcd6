/** A graph of nodes and edges, laid out by itself; it can be looked at, or drawn on. */
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
import "../style/graph.css";
import { memo, useEffect, useMemo, useState } from "react";
import { useText } from "../text";
import { layout, NODE_HEIGHT, NODE_WIDTH, type Edge, type Place } from "./graph-shape";
import { Icon } from "./icon";
import { iconOf, toneOf } from "./status";

export interface GraphNode {
  readonly name: string;
  readonly kind: string;
  readonly status?: string;
  /** What is left of its slots, in words. */
  readonly slots?: string;
  /** How long it took, or whatever else there is to say. */
  readonly note?: string;
  /** Whether it is about to be added. */
  readonly isNew?: boolean;
  /** Whether edges may end at it, where one draws. */
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
  /** Present when one may draw edges. */
  onConnect?: (edge: Edge) => void;
  onDisconnect?: (edge: Edge) => void;
}

type Drawn = Node<Record<"node", GraphNode> & Record<"isDrawable", boolean>, "node">;

const TYPES = { node: memo(NodeBox) };
const MANY = 30;
const FIT = { maxZoom: 1, padding: 0.08 };

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
  // Places depend on the shape only: a node that changes its state stays where it is.
  const places = useMemo(() => {
    const drawn = JSON.parse(shape) as { names: string[]; edges: Edge[]; inside: Edge[] };
    return layout(drawn.names, [...drawn.edges, ...drawn.inside]);
  }, [shape]);
  useEffect(() => {
    const frame = requestAnimationFrame(() => void instance?.fitView(FIT));
    return () => cancelAnimationFrame(frame);
  }, [instance, places]);
  const statuses = new Map(nodes.map((node) => [node.name, node.status]));
  const isDrawable = onConnect !== undefined;
  const words: Readonly<Record<string, string>> = t.status;
  const connect = ({ source, target }: Connection) => onConnect?.([source, target]);
  const change = (changes: readonly NodeChange<Drawn>[]) => {
    // By the keyboard; a click selects as well.
    const picked = changes.find((each) => each.type === "select" && each.selected);
    if (picked?.type === "select") onSelect(picked.id);
  };
  return (
    <div className="graph">
      <ReactFlow<Drawn>
        aria-label={label}
        nodes={nodes.map((node) => ({
          ...drawn(node, places.get(node.name), selected, isDrawable),
          ariaLabel: `${node.name}: ${words[node.status ?? ""] ?? node.kind}`,
        }))}
        edges={[
          ...edges.map((edge) => line(edge, statuses, isDrawable)),
          ...inside.map((edge) => ({ ...line(edge, statuses, false), className: "inside" })),
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
        fitViewOptions={FIT}
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
        <Controls showInteractive={false} />
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

type Statuses = ReadonlyMap<string, string | undefined>;

function line([source, target]: Edge, statuses: Statuses, isDrawable: boolean): FlowEdge {
  const status = statuses.get(source);
  const isOver = statuses.get(target) === "succeeded" || status === "succeeded";
  const state = isOver ? "filled" : status === "failed" ? "broken" : "open";
  return {
    id: `${source}\n${target}`,
    source,
    target,
    className: `${state} ${isDrawable ? "removable" : ""} ${status === "running" ? "flowing" : ""}`,
    markerEnd: { type: MarkerType.ArrowClosed, width: 16, height: 16 },
  };
}

function NodeBox({ data, selected }: NodeProps<Drawn>) {
  const { t } = useText();
  const { isDrawable } = data;
  const { name, kind, status, slots, note, isNew, isFixed = false } = data.node;
  const words: Readonly<Record<string, string>> = t.status;
  const names = [
    "graph-node",
    `tone-${toneOf(status ?? "")}`,
    status ?? "plain",
    selected && "on",
    isNew && "new",
  ];
  return (
    <div
      className={names.filter(Boolean).join(" ")}
      title={name === kind ? name : `${name}\n${kind}`}
    >
      <Handle type="target" position={Position.Left} isConnectable={isDrawable && !isFixed} />
      {status && <Icon name={iconOf(status)} label={words[status] ?? status} />}
      <span className="graph-words">
        <b>{name}</b>
        <small>{kind === name ? (note ?? kind) : kind}</small>
      </span>
      {slots && <span className="slots">{slots}</span>}
      {!slots && note && kind !== name && <span className="graph-note">{note}</span>}
      <Handle type="source" position={Position.Right} isConnectable={isDrawable} />
    </div>
  );
}

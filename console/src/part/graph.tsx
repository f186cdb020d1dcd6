/** A graph of nodes and edges, laid out by itself; it can be looked at, or drawn on. */
import {
  Background,
  Controls,
  Handle,
  MarkerType,
  Position,
  ReactFlow,
  type Connection,
  type Edge as FlowEdge,
  type Node,
  type NodeProps,
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import "../style/graph.css";
import { memo, useMemo } from "react";
import { useText } from "../text";
import { layout, NODE_HEIGHT, NODE_WIDTH, type Edge, type Place } from "./graph-shape";
import { Icon } from "./icon";
import { iconOf, toneOf } from "./status";

export interface GraphNode {
  readonly name: string;
  readonly kind: string;
  readonly status?: string;
  readonly openSlots?: number;
}

interface GraphProps {
  label: string;
  nodes: readonly GraphNode[];
  edges: readonly Edge[];
  selected: string | null;
  onSelect: (name: string | null) => void;
  /** Present when one may draw edges. */
  onConnect?: (edge: Edge) => void;
  onDisconnect?: (edge: Edge) => void;
}

type Drawn = Node<Record<"node", GraphNode> & Record<"isDrawable", boolean>, "node">;

const TYPES = { node: memo(NodeBox) };

export function Graph({
  label,
  nodes,
  edges,
  selected,
  onSelect,
  onConnect,
  onDisconnect,
}: GraphProps) {
  const shape = JSON.stringify({ names: nodes.map((node) => node.name), edges });
  // Places depend on the shape only: a node that changes its state stays where it is.
  const places = useMemo(() => {
    const drawn = JSON.parse(shape) as { names: string[]; edges: Edge[] };
    return layout(drawn.names, drawn.edges);
  }, [shape]);
  const statuses = new Map(nodes.map((node) => [node.name, node.status]));
  const connect = ({ source, target }: Connection) => onConnect?.([source, target]);
  return (
    <div className="graph">
      <ReactFlow<Drawn>
        aria-label={label}
        nodes={nodes.map((node) =>
          drawn(node, places.get(node.name), selected, onConnect !== undefined),
        )}
        edges={edges.map((edge) => line(edge, statuses.get(edge[0])))}
        nodeTypes={TYPES}
        nodesDraggable={false}
        nodesConnectable={onConnect !== undefined}
        deleteKeyCode={null}
        minZoom={0.1}
        maxZoom={1.5}
        fitView
        fitViewOptions={{ maxZoom: 1, padding: 0.08 }}
        proOptions={{ hideAttribution: true }}
        onConnect={connect}
        onNodeClick={(_, node) => onSelect(node.id)}
        onPaneClick={() => onSelect(null)}
        onEdgeClick={(_, edge) => onDisconnect?.([edge.source, edge.target])}
      >
        <Background gap={20} size={1} />
        <Controls showInteractive={false} />
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

function line([source, target]: Edge, status: string | undefined): FlowEdge {
  return {
    id: `${source}\n${target}`,
    source,
    target,
    className: status === "succeeded" ? "filled" : "open",
    markerEnd: { type: MarkerType.ArrowClosed, width: 16, height: 16 },
  };
}

function NodeBox({ data, selected }: NodeProps<Drawn>) {
  const { t } = useText();
  const { isDrawable } = data;
  const { name, kind, status, openSlots = 0 } = data.node;
  return (
    <div
      className={`graph-node tone-${toneOf(status ?? "")} ${selected ? "on" : ""} ${status ?? "plain"}`}
    >
      <Handle type="target" position={Position.Left} isConnectable={isDrawable} />
      {status && <Icon name={iconOf(status)} label={status} />}
      <span className="graph-words">
        <b>{name}</b>
        <small>{kind}</small>
      </span>
      {openSlots > 0 && <span className="slots">{t.flow.slots(openSlots)}</span>}
      <Handle type="source" position={Position.Right} isConnectable={isDrawable} />
    </div>
  );
}

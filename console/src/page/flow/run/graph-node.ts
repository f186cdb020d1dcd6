/** The nodes of a flow run as the graph takes them. */
import { useNow } from "../../../data/hook";
import type { GraphNode } from "../../../part/picture/graph";
import { useText } from "../../../text";
import { secondsOf, type FlowNode } from "../progress";

/** Nodes with their open slots, or how long they took. */
export function useGraphNodes(nodes: readonly FlowNode[]): readonly GraphNode[] {
  const { t, f } = useText();
  const now = useNow();
  return nodes.map((node) => {
    const seconds = secondsOf(node, now);
    const isOpen = node.status === "blocked" && node.open_slots > 0;
    const note = node.is_skipped ? t.flow.wasSkipped : seconds === null ? "" : f.span(seconds);
    return {
      name: node.name,
      kind: node.kind,
      status: node.status,
      ...(isOpen ? { slots: node.slots, open: node.open_slots } : {}),
      ...(note ? { note } : {}),
    };
  });
}

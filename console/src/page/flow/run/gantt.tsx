/** The nodes of a flow run on a timeline. */
import { useNow } from "../../../data/hook";
import { toMilliseconds } from "../../../format/format";
import { Empty } from "../../../part/faces";
import { iconOf, toneOf } from "../../../part/status";
import { Timeline } from "../../../part/picture/timeline";
import { useText } from "../../../text";
import type { FlowNode } from "../progress";

interface GanttProps {
  nodes: readonly FlowNode[];
  onPick: (name: string) => void;
}

export function Gantt({ nodes, onPick }: GanttProps) {
  const { t } = useText();
  const now = useNow();
  const begun = nodes.filter((node) => node.started_at !== null);
  if (begun.length === 0) return <Empty title={t.flow.notBegun} />;
  const rows = begun
    .map((node) => {
      const begin = toMilliseconds(node.started_at ?? 0);
      return {
        key: node.name,
        name: (
          <button type="button" className="as-link clip" onClick={() => onPick(node.name)}>
            {node.name}
          </button>
        ),
        begin,
        end: node.finished_at === null ? Math.max(begin, now) : toMilliseconds(node.finished_at),
        tone: toneOf(node.status),
        icon: iconOf(node.status),
      };
    })
    .sort((one, other) => one.begin - other.begin || one.end - other.end);
  return <Timeline label={t.flow.gantt} rows={rows} hasScale />;
}

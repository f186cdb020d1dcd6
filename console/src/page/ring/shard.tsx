/** All shards side by side. */
import type { Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { Card } from "../../part/basic";
import { Faces } from "../../part/faces";
import { Badge } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { useText } from "../../text";

export function Shards() {
  const { t, f } = useText();
  const resource = useLive("shards", { topics: ["workers", "tasks"], seconds: 10 });
  const columns: readonly Column<Row<"shards">>[] = [
    {
      label: t.field.shard,
      isWide: true,
      render: (shard) => <span className="name">{shard.database}</span>,
    },
    {
      label: t.field.state,
      render: (shard) =>
        shard.up ? (
          <span className="inline">
            <Badge tone="good" icon="check">
              {t.ring.up}
            </Badge>
            {shard.draining && <Badge tone="warn">{t.ring.draining}</Badge>}
          </span>
        ) : (
          <Badge tone="bad" icon="warning">
            {t.ring.down}
          </Badge>
        ),
    },
    { label: t.field.waiting, isNumber: true, render: (shard) => f.count(shard.waiting) },
    { label: t.field.running, isNumber: true, render: (shard) => f.count(shard.running) },
    { label: t.overview.workers, isNumber: true, render: (shard) => f.number(shard.workers) },
    {
      label: t.ring.moving,
      isNumber: true,
      isExtra: true,
      render: (shard) => f.count(shard.moving),
    },
  ];
  return (
    <Card isFlush title={t.ring.shards}>
      <Faces resource={resource} lines={3}>
        {(shards) => (
          <Table
            label={t.ring.shards}
            columns={columns}
            rows={shards}
            rowKey={(shard) => shard.number}
          />
        )}
      </Faces>
    </Card>
  );
}

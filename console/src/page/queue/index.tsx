/** Queues of brokers: what comes in, what goes out, and what failed. */
import type { Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { Ago, BadCount, Card, Page } from "../../part/basic";
import { Empty, Faces } from "../../part/faces";
import { Badge } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { pathOf } from "../../route/address";
import { useText } from "../../text";

export type Queue = Row<"queues">;

export function QueuePage() {
  const { t } = useText();
  const resource = useLive("queues", { topics: ["tasks", "alerts"], seconds: 5 });
  return (
    <Page title={t.menu.queues} lead={t.queue.lead}>
      <Card isFlush>
        <Faces
          resource={resource}
          isEmpty={(rows) => rows.length === 0}
          empty={
            <Empty title={t.queue.none}>
              {t.queue.noneText}{" "}
              <code>@app.consume(Queue(&quot;amqp://…&quot;, &quot;product&quot;))</code>
            </Empty>
          }
        >
          {(rows) => <Queues rows={rows} />}
        </Faces>
      </Card>
    </Page>
  );
}

function Queues({ rows }: { rows: readonly Queue[] }) {
  const { t, f } = useText();
  const perSecond = (rate: number) => (rate ? t.common.perSecond(f.measure(rate)) : "–");
  const columns: readonly Column<Queue>[] = [
    {
      label: t.queue.one,
      render: (row) => (
        <span className="stack">
          <span className="name">{row.name}</span>
          <small>{row.address}</small>
        </span>
      ),
    },
    {
      label: t.overview.kinds,
      render: (row) => (
        <span className="stack">
          {[...row.kinds, ...row.carries].map((kind) => (
            <span key={kind} className="name">
              {kind}
            </span>
          ))}
        </span>
      ),
    },
    {
      label: t.field.state,
      isWide: true,
      render: (row) => (
        <span className="stack">
          <QueueState row={row} />
          {row.error && <small className="clip">{row.error}</small>}
        </span>
      ),
    },
    { label: t.queue.in, isNumber: true, render: (row) => perSecond(row.received_per_second) },
    { label: t.queue.retrying, isNumber: true, render: (row) => f.count(row.retrying) },
    { label: t.queue.out, isNumber: true, render: (row) => perSecond(row.sent_per_second) },
    { label: t.queue.waiting, isNumber: true, render: (row) => f.count(row.waiting) },
    { label: t.queue.oldest, isNumber: true, render: (row) => <Ago at={row.oldest_at} /> },
    {
      label: t.field.failed,
      isNumber: true,
      render: (row) => <BadCount value={row.failed + row.unsent} />,
    },
  ];
  return (
    <Table
      label={t.menu.queues}
      columns={columns}
      rows={rows}
      rowKey={(row) => `${row.name}@${row.address}`}
      to={(row) => pathOf("queues", nameOf(row, rows))}
    />
  );
}

/** The name of a queue; with its address if brokers have queues of the same name. */
export function nameOf(row: Queue, rows: readonly Queue[]): string {
  const isAlone = rows.filter((each) => each.name === row.name).length === 1;
  return isAlone ? row.name : `${row.name}@${row.address}`;
}

export function QueueState({ row }: { row: Queue }) {
  const { t } = useText();
  if (row.error) {
    return (
      <Badge tone="bad" icon="warning">
        {t.queue.trouble}
      </Badge>
    );
  }
  if (row.answered_at === null) return <Badge tone="idle">{t.queue.unused}</Badge>;
  return (
    <Badge tone="good" icon="check">
      {t.queue.answers}
    </Badge>
  );
}

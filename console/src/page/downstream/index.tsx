/** Downstreams: the systems that tasks call, and the limits that their kinds share. */
import type { Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { Card, Missing, Page } from "../../part/basic";
import { Empty, Faces } from "../../part/faces";
import { Said } from "../../part/said";
import { Badge } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { pathOf } from "../../route/address";
import { useText } from "../../text";

export type Downstream = Row<"downstreams">;

export function DownstreamPage() {
  const { t } = useText();
  const resource = useLive("downstreams", { topics: ["switches", "tasks"], seconds: 5 });
  return (
    <Page title={t.menu.downstreams} lead={t.downstream.lead}>
      <Card isFlush>
        <Faces
          resource={resource}
          isEmpty={(rows) => rows.length === 0}
          empty={
            <Empty title={t.downstream.none}>
              {t.downstream.noneText}{" "}
              <code>app.downstream(&quot;inventory&quot;, rate=&quot;700/s&quot;)</code>
            </Empty>
          }
        >
          {(rows) => (
            <>
              <Missing shards={rows[0]?.missing ?? []} />
              <Downstreams rows={rows} />
            </>
          )}
        </Faces>
      </Card>
    </Page>
  );
}

function Downstreams({ rows }: { rows: readonly Downstream[] }) {
  const { t, f } = useText();
  const total = (row: Downstream, of: "starts_per_minute" | "errors_per_minute") =>
    row.kinds.reduce((sum, kind) => sum + kind[of], 0);
  const columns: readonly Column<Downstream>[] = [
    { label: t.downstream.one, render: (row) => <span className="name">{row.name}</span> },
    {
      label: t.field.state,
      isWide: true,
      render: (row) => (
        <span className="stack">
          <DownstreamState row={row} />
          {row.held && (
            <small>
              <Said said={row.held} />
            </small>
          )}
        </span>
      ),
    },
    { label: t.switch.rate, isNumber: true, render: (row) => row.holds.rate ?? "–" },
    { label: t.downstream.atOnce, isNumber: true, render: (row) => <AtOnce row={row} /> },
    {
      label: t.downstream.starts,
      isNumber: true,
      render: (row) => f.measure(total(row, "starts_per_minute")),
    },
    {
      label: t.downstream.errors,
      isNumber: true,
      render: (row) => f.measure(total(row, "errors_per_minute")),
    },
  ];
  return (
    <Table
      label={t.menu.downstreams}
      columns={columns}
      rows={rows}
      rowKey={(row) => row.name}
      to={(row) => pathOf("downstreams", row.name)}
    />
  );
}

/** How many permits are held, of how many there are. */
export function AtOnce({ row }: { row: Downstream }) {
  const { f } = useText();
  if (row.holds.concurrency === null) return <span className="faint">–</span>;
  return `${f.number(row.permits_held)} / ${f.number(row.holds.concurrency)}`;
}

export function DownstreamState({ row }: { row: Downstream }) {
  const { t } = useText();
  if (row.off) {
    return (
      <Badge tone="warn" icon="pause">
        {t.switch.isPaused}
      </Badge>
    );
  }
  if (row.has_breaker && row.breaker !== "closed") {
    return (
      <Badge tone="bad" icon="bolt">
        {t.switch.breakerOpen}
      </Badge>
    );
  }
  if (row.held_back) return <Badge tone="idle">{t.downstream.closed}</Badge>;
  return <Badge tone="good">{t.switch.on}</Badge>;
}

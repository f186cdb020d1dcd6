/** Sweeps and their progress. */
import type { Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { Ago, BadCount, Bar, Card, Page } from "../../part/basic";
import { Empty, Faces } from "../../part/faces";
import { Said } from "../../part/said";
import { Badge } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { pathOf } from "../../route/address";
import { useText } from "../../text";

type Sweep = Row<"sweeps">;

export function SweepPage() {
  const { t, f } = useText();
  const resource = useLive("sweeps", { topics: ["sweeps", "switches"], seconds: 5 });
  const columns: readonly Column<Sweep>[] = [
    { label: t.sweep.one, render: (row) => <span className="name">{row.sweep}</span> },
    {
      label: t.field.state,
      isWide: true,
      render: (row) => (
        <span className="why">
          <SweepState sweep={row} />
          <span>{row.says && <Said said={row.says} />}</span>
        </span>
      ),
    },
    { label: t.sweep.round, isNumber: true, render: (row) => f.number(row.round) },
    {
      label: t.sweep.progress,
      isNumber: true,
      render: (row) => (
        <span className="with-bar">
          {f.percent(row.percent)}
          <Bar percent={row.percent ?? 0} tone={row.is_running ? "busy" : "good"} />
        </span>
      ),
    },
    {
      label: t.sweep.rate,
      isNumber: true,
      render: (row) => t.common.perSecond(f.measure(row.rate)),
    },
    {
      label: t.sweep.left,
      isNumber: true,
      render: (row) => (row.is_running ? f.span(row.eta) : <Ago at={row.next_at} />),
    },
    { label: t.field.failed, isNumber: true, render: (row) => <BadCount value={row.failed} /> },
  ];
  return (
    <Page title={t.menu.sweeps} lead={t.sweep.lead}>
      <Card isFlush>
        <Faces
          resource={resource}
          isEmpty={(rows) => rows.length === 0}
          empty={
            <Empty title={t.sweep.none}>
              {t.sweep.noneText} <code>@app.sweep(Table(url, &quot;offer&quot;), ranges=30)</code>
            </Empty>
          }
        >
          {(rows) => (
            <Table
              label={t.menu.sweeps}
              columns={columns}
              rows={rows}
              rowKey={(row) => row.sweep}
              to={(row) => pathOf("sweeps", row.sweep)}
            />
          )}
        </Faces>
      </Card>
    </Page>
  );
}

export function SweepState({ sweep }: { sweep: Pick<Sweep, "error" | "is_running"> }) {
  const { t } = useText();
  if (sweep.error !== null) {
    return (
      <Badge tone="bad" icon="warning">
        {t.sweep.trouble}
      </Badge>
    );
  }
  if (!sweep.is_running) {
    return (
      <Badge tone="idle" icon="clock">
        {t.sweep.idle}
      </Badge>
    );
  }
  return (
    <Badge tone="busy" icon="play">
      {t.sweep.running}
    </Badge>
  );
}

/** The runs of a sweep over sources that were given at their start. */
import type { Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { Ago, BadCount, Bar, Card } from "../../part/basic";
import { Empty, Faces } from "../../part/faces";
import { Table, type Column } from "../../part/table";
import { pathOf } from "../../route/address";
import { useText } from "../../text";
import { SweepState } from ".";

export function Runs({ kind }: { kind: string }) {
  const { t, f } = useText();
  const resource = useLive("sweeps/{kind}/runs", { params: { kind }, topics: ["sweeps"] });
  const columns: readonly Column<Row<"sweeps/{kind}/runs">>[] = [
    { label: t.sweep.runs, render: (run) => <b className="name">{run.sweep}</b> },
    {
      label: t.sweep.runSource,
      isWide: true,
      render: (run) => <span className="name clip">{run.source}</span>,
    },
    { label: t.field.key, render: (run) => <span className="name">{run.key ?? "–"}</span> },
    { label: t.field.state, render: (run) => <SweepState sweep={run} /> },
    {
      label: t.sweep.progress,
      isNumber: true,
      render: (run) => (
        <span className="with-bar">
          {f.percent(run.percent)}
          <Bar percent={run.percent ?? 0} tone={run.is_running ? "busy" : "good"} />
        </span>
      ),
    },
    { label: t.sweep.done, isNumber: true, render: (run) => f.number(run.done) },
    { label: t.field.failed, isNumber: true, render: (run) => <BadCount value={run.failed} /> },
    { label: t.field.started, isNumber: true, render: (run) => <Ago at={run.started_at} /> },
  ];
  return (
    <Card isFlush>
      <Faces
        resource={resource}
        isEmpty={(runs) => runs.length === 0}
        empty={
          <Empty title={t.sweep.noRuns}>
            {t.sweep.noRunsText} <code>{kind}.start(source=Csv(path, key=&quot;id&quot;))</code>
          </Empty>
        }
      >
        {(runs) => (
          <Table
            label={t.sweep.runs}
            columns={columns}
            rows={runs}
            rowKey={(run) => run.sweep}
            to={(run) => pathOf("sweeps", run.sweep)}
          />
        )}
      </Faces>
    </Card>
  );
}

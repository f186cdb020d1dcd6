/** One downstream: its limits as they are now, what each kind takes, and the permits of workers. */
import { useLive } from "../../data/hook";
import { Ago, Card, Facts, Missing, Note, Page } from "../../part/basic";
import { Empty, Faces } from "../../part/faces";
import { Said } from "../../part/said";
import { Table, type Column } from "../../part/table";
import { pathOf } from "../../route/address";
import { useText } from "../../text";
import { SwitchActions } from "../switch/act";
import { AtOnce, DownstreamState, type Downstream } from ".";
import { HistoryChart } from "./history";

type Take = Downstream["kinds"][number];
type Permit = Downstream["permits"][number];

export function DownstreamDetailPage({ name }: { name: string }) {
  const { t } = useText();
  const resource = useLive("downstreams/{name}", {
    params: { name },
    topics: ["switches", "tasks"],
    seconds: 2,
  });
  const row = useLive("switches/{kind}", {
    params: { kind: name },
    topics: ["switches"],
    seconds: 10,
  });
  return (
    <Page
      up={{ to: "downstreams", label: t.menu.downstreams }}
      title={name}
      badge={resource.data && <DownstreamState row={resource.data} />}
      actions={row.data && <SwitchActions row={row.data} isFull />}
    >
      <Faces resource={resource} lines={8}>
        {(data) => (
          <>
            <Missing shards={data.missing} />
            {data.held && (
              <Note tone="warn">
                <Said said={data.held} />
              </Note>
            )}
            {data.problem && <Note tone="bad">{data.problem}</Note>}
            <div className="columns even">
              <div className="main-column">
                {data.adapt && <History points={data.history} />}
                <Takes takes={data.kinds} />
                <Permits permits={data.permits} />
              </div>
              <div className="side-column">
                <About row={data} />
              </div>
            </div>
          </>
        )}
      </Faces>
    </Page>
  );
}

function About({ row }: { row: Downstream }) {
  const { t } = useText();
  const limits = (of: Downstream["holds"]) =>
    [
      of.rate ?? t.downstream.noRate,
      of.window ?? t.switch.always,
      of.concurrency === null ? t.switch.noLimit : t.downstream.most(of.concurrency.toString()),
    ].join(", ");
  return (
    <Card title={t.downstream.limits}>
      <Facts
        facts={[
          [t.switch.holds, limits(row.holds)],
          [row.adapt ? t.downstream.ceilings : t.switch.declared, limits(row.declared)],
          [t.downstream.atOnce, <AtOnce key="at-once" row={row} />],
          [t.switch.errorsInARow, row.has_breaker ? row.errors_in_a_row : null],
          [t.switch.probe, row.probe_at && <Ago at={row.probe_at} />],
          [t.downstream.home, row.home],
        ]}
      />
    </Card>
  );
}

function History({ points }: { points: Downstream["history"] }) {
  const { t } = useText();
  return (
    <Card title={t.downstream.history}>
      {points.length === 0 ? (
        <Empty title={t.downstream.noHistory}>{t.downstream.noHistoryText}</Empty>
      ) : (
        <HistoryChart points={points} label={t.downstream.history} />
      )}
    </Card>
  );
}

function Takes({ takes }: { takes: readonly Take[] }) {
  const { t, f } = useText();
  const columns: readonly Column<Take>[] = [
    { label: t.field.kind, render: (take) => <span className="name">{take.kind}</span> },
    {
      label: t.downstream.starts,
      isNumber: true,
      render: (take) => f.measure(take.starts_per_minute),
    },
    {
      label: t.downstream.errors,
      isNumber: true,
      render: (take) => f.measure(take.errors_per_minute),
    },
    {
      label: t.downstream.mean,
      isNumber: true,
      render: (take) => f.milliseconds(take.mean_milliseconds),
    },
    {
      label: t.field.state,
      isWide: true,
      render: (take) => (take.held ? <Said said={take.held} /> : "–"),
    },
  ];
  return (
    <Card title={t.downstream.kinds} isFlush>
      {takes.length === 0 ? (
        <Empty title={t.downstream.noKinds} />
      ) : (
        <Table
          label={t.downstream.kinds}
          columns={columns}
          rows={takes}
          rowKey={(take) => take.kind}
          to={(take) => pathOf("switches", take.kind)}
        />
      )}
    </Card>
  );
}

function Permits({ permits }: { permits: readonly Permit[] }) {
  const { t, f } = useText();
  if (permits.length === 0) return null;
  const columns: readonly Column<Permit>[] = [
    { label: t.downstream.worker, render: (permit) => permit.worker },
    { label: t.downstream.held, isNumber: true, render: (permit) => f.number(permit.held) },
    { label: t.downstream.wanted, isNumber: true, render: (permit) => f.number(permit.wanted) },
    { label: t.downstream.waits, render: (permit) => <Ago at={permit.waits_since} /> },
  ];
  return (
    <Card title={t.downstream.permits} isFlush>
      <Table
        label={t.downstream.permits}
        columns={columns}
        rows={permits}
        rowKey={(permit) => permit.worker}
      />
    </Card>
  );
}

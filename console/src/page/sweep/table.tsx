/** The lists of a sweep: ranges, rounds and failed items. */
import type { Row } from "../../api/call";
import { post } from "../../api/client";
import { useLive } from "../../data/hook";
import { Ago, BadCount, Bar, Button, Card } from "../../part/basic";
import { Empty, Faces } from "../../part/faces";
import { letterOf } from "../../part/member";
import { Badge, Status, toneOf } from "../../part/status";
import { keysOf } from "../../part/picture/strip";
import { Table, type Column } from "../../part/table";
import { useAction } from "../../part/toast";
import { useQuery } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import type { Sweep } from "./detail";

const ROWS_SHOWN = 200;

export function Ranges({ sweep, owners }: { sweep: Sweep; owners: readonly number[] }) {
  const { t, f } = useText();
  const [query] = useQuery();
  const columns: readonly Column<Sweep["ranges"][number]>[] = [
    {
      label: t.sweep.keys,
      isWide: true,
      render: (range) => <span className="name">{keysOf(range)}</span>,
    },
    {
      label: t.field.status,
      render: (range) => (
        <span className="inline">
          <Status status={range.status} />
          {range.is_straggler && <Badge tone="warn">{t.sweep.straggler}</Badge>}
        </span>
      ),
    },
    {
      label: t.sweep.breakpoint,
      isNumber: true,
      render: (range) => <span className="name">{range.breakpoint ?? "–"}</span>,
    },
    {
      label: t.sweep.progress,
      isNumber: true,
      render: (range) => (
        <span className="with-bar">
          {f.percent(range.percent)}
          <Bar percent={range.percent ?? 0} tone={toneOf(range.status)} />
        </span>
      ),
    },
    {
      label: t.sweep.rate,
      isNumber: true,
      render: (range) => (range.rate > 0 ? t.common.perSecond(f.measure(range.rate)) : "–"),
    },
    { label: t.sweep.done, isNumber: true, render: (range) => f.number(range.done) },
    { label: t.field.failed, isNumber: true, render: (range) => <BadCount value={range.failed} /> },
    {
      label: t.field.worker,
      isNumber: true,
      render: (range) =>
        range.owner === null ? (
          <span className="faint">–</span>
        ) : (
          <span title={String(range.owner)}>{letterOf(owners.indexOf(range.owner))}</span>
        ),
    },
    {
      label: t.sweep.saved,
      isNumber: true,
      isExtra: true,
      render: (range) => <Ago at={range.heartbeat_at} />,
    },
  ];
  const shown = sweep.ranges.slice(0, ROWS_SHOWN);
  return (
    <Card isFlush>
      {shown.length === 0 ? (
        <Empty title={t.sweep.noRanges}>{t.sweep.noRangesText}</Empty>
      ) : (
        <Table
          label={t.sweep.rangesTab}
          columns={columns}
          rows={shown}
          rowKey={(range) => range.id}
          tone={(range) => (String(range.id) === query.range ? "selected" : undefined)}
        />
      )}
      {sweep.ranges.length > shown.length && (
        <p className="table-note">
          {t.common.firstOf(f.number(ROWS_SHOWN), f.number(sweep.ranges.length))}
        </p>
      )}
    </Card>
  );
}

export function Rounds({ kind }: { kind: string }) {
  const { t, f } = useText();
  const resource = useLive("sweeps/{kind}/rounds", { params: { kind }, topics: ["sweeps"] });
  const columns: readonly Column<Row<"sweeps/{kind}/rounds">>[] = [
    { label: t.sweep.round, render: (round) => <b>{f.number(round.round)}</b> },
    { label: t.field.started, isWide: true, render: (round) => f.moment(round.started_at) },
    { label: t.sweep.took, isNumber: true, render: (round) => f.span(round.duration) },
    { label: t.sweep.done, isNumber: true, render: (round) => f.number(round.done) },
    { label: t.field.failed, isNumber: true, render: (round) => <BadCount value={round.failed} /> },
    {
      label: t.sweep.rate,
      isNumber: true,
      render: (round) => t.common.perSecond(f.measure(round.rate)),
    },
    {
      label: t.sweep.rangesTab,
      isNumber: true,
      isExtra: true,
      render: (round) => f.number(round.ranges),
    },
  ];
  return (
    <Card isFlush>
      <Faces
        resource={resource}
        isEmpty={(rounds) => rounds.length === 0}
        empty={<Empty title={t.sweep.noRounds}>{t.sweep.noRoundsText}</Empty>}
      >
        {(rounds) => (
          <Table
            label={t.sweep.rounds}
            columns={columns}
            rows={rounds}
            rowKey={(round) => round.round}
          />
        )}
      </Faces>
    </Card>
  );
}

export function Failures({ kind }: { kind: string }) {
  const { t, f } = useText();
  const { canAct } = useSession();
  const action = useAction();
  const resource = useLive("sweeps/{kind}/failures", {
    params: { kind },
    topics: ["sweeps", "failures"],
  });
  const retry = (keys?: readonly string[]) =>
    action.run(
      () => post("sweeps/{kind}/retry", { params: { kind }, body: keys ? { keys } : {} }),
      (done) => t.sweep.retried(f.number(done.changed)),
    );
  const columns: readonly Column<Row<"sweeps/{kind}/failures">>[] = [
    { label: t.field.key, render: (row) => <span className="name">{row.shown}</span> },
    {
      label: t.field.error,
      isWide: true,
      render: (row) => <span className="text-bad clip">{row.error}</span>,
    },
    { label: t.field.attempt, isNumber: true, render: (row) => f.number(row.tries) },
    { label: t.sweep.round, isNumber: true, render: (row) => f.number(row.round) },
    { label: t.field.failed, isNumber: true, render: (row) => <Ago at={row.failed_at} /> },
    {
      label: "",
      render: (row) =>
        canAct ? (
          <Button icon="retry" isBusy={action.isBusy} onClick={() => void retry([row.key])}>
            {t.task.retry}
          </Button>
        ) : null,
    },
  ];
  return (
    <Card
      isFlush
      title={t.sweep.failures}
      aside={
        canAct &&
        (resource.data?.length ?? 0) > 0 && (
          <Button icon="retry" isBusy={action.isBusy} onClick={() => void retry()}>
            {t.sweep.retryAll}
          </Button>
        )
      }
    >
      <Faces
        resource={resource}
        isEmpty={(rows) => rows.length === 0}
        empty={<Empty title={t.sweep.noFailures}>{t.sweep.noFailuresText}</Empty>}
      >
        {(rows) => (
          <Table label={t.sweep.failures} columns={columns} rows={rows} rowKey={(row) => row.key} />
        )}
      </Faces>
    </Card>
  );
}

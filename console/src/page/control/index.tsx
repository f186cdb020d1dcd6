/** Control runs: who runs what, and where it stopped. */
import type { Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { Ago, Bar, Page } from "../../part/basic";
import { Filter, Find } from "../../part/control";
import { Empty } from "../../part/faces";
import { PagedList } from "../../part/list";
import { Badge, Status } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { oneOf, pathOf, queryOf } from "../../route/address";
import { useQuery } from "../../route/router";
import { useText } from "../../text";

export type Run = Row<"control">;

const STATUSES = ["running", "failed", "succeeded"] as const;

export function ControlPage() {
  const { t } = useText();
  const [{ name, status, after }] = useQuery();
  const chosen = oneOf(STATUSES, status);
  const resource = useLive("control", {
    query: { name, status: chosen && [chosen], after, limit: 50 },
    topics: ["control"],
  });
  const isFiltered = Boolean(name ?? status ?? after);
  return (
    <Page title={t.menu.control} lead={t.control.lead}>
      <div className="filters">
        <div className="filter-row">
          <Filter name="status" label={t.field.status} values={STATUSES} words={t.status} />
          <Find name="name" label={t.control.find} />
        </div>
      </div>
      <PagedList
        resource={resource}
        empty={
          isFiltered ? (
            <Empty title={t.control.noMatch} />
          ) : (
            <Empty title={t.control.none}>
              {t.control.noneText} <code>with app.control(&quot;load&quot;) as run:</code>
            </Empty>
          )
        }
      >
        {(page) => <Runs runs={page.items} />}
      </PagedList>
    </Page>
  );
}

function Runs({ runs }: { runs: readonly Run[] }) {
  const { t, f } = useText();
  const columns: readonly Column<Run>[] = [
    {
      label: t.control.run,
      render: (run) => (
        <span className="inline">
          <span className="name">{run.name}</span>
          {run.partition && <span className="chip">{run.partition}</span>}
        </span>
      ),
    },
    {
      label: t.field.status,
      render: (run) => (
        <span className="inline">
          <Status status={run.status} />
          {run.expired && <Badge tone="warn">{t.control.expired}</Badge>}
        </span>
      ),
    },
    {
      label: t.control.step,
      isWide: true,
      render: (run) => (
        <span className="stack">
          <span>{run.step ?? <span className="faint">–</span>}</span>
          {run.error && <small className="text-bad clip">{run.error.split("\n")[0]}</small>}
          {run.status === "running" && run.progress && <Progress run={run} />}
        </span>
      ),
    },
    { label: t.control.who, render: (run) => <span className="nowrap">{run.who}</span> },
    { label: t.control.tries, isNumber: true, render: (run) => f.number(run.tries) },
    { label: t.field.started, isNumber: true, render: (run) => <Ago at={run.start_time} /> },
    { label: t.control.took, isNumber: true, render: (run) => f.span(run.run_seconds) },
  ];
  return (
    <Table
      label={t.menu.control}
      columns={columns}
      rows={runs}
      rowKey={(run) => `${run.name}\n${run.partition}`}
      to={(run) => pathOf("control", run.name) + queryOf({ partition: run.partition })}
    />
  );
}

export function Progress({ run }: { run: Run }) {
  const { f } = useText();
  if (!run.progress) return null;
  const { done, total } = run.progress;
  return (
    <span className="with-bar wide-bar">
      {f.number(done)}
      {total !== null && ` / ${f.number(total)}`}
      {total !== null && <Bar percent={(100 * done) / Math.max(1, total)} />}
    </span>
  );
}

/** Named runs: who runs what, and where it stopped. */
import type { Page_RunOut_, RunOut } from "../../api/model";
import { useLive } from "../../data/hook";
import { Ago, Bar, Card, Missing, Page } from "../../part/basic";
import { Pager, Search, Segments } from "../../part/control";
import { Empty, Faces } from "../../part/faces";
import { Badge, Status } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { pathOf, queryOf } from "../../route/address";
import { useQuery } from "../../route/router";
import { useText } from "../../text";

const STATUSES = ["running", "failed", "succeeded"] as const;

export function ControlPage() {
  const { t } = useText();
  const [query, change] = useQuery();
  const { name, status, after } = query;
  const resource = useLive<Page_RunOut_>(`control${queryOf({ name, status, after, limit: 50 })}`, [
    "control",
  ]);
  const isFiltered = Boolean(name ?? status ?? after);
  return (
    <Page title={t.menu.control} lead={t.control.lead}>
      <div className="filters">
        <div className="filter-row">
          <Segments
            label={t.field.status}
            value={status ?? ""}
            choices={[
              { value: "", label: t.common.all },
              ...STATUSES.map((value) => ({ value: value as string, label: t.status[value] })),
            ]}
            onChoose={(value) => change({ status: value, after: null })}
          />
          <Search
            label={t.control.find}
            value={name ?? ""}
            onSearch={(text) => change({ name: text, after: null })}
          />
        </div>
      </div>
      <Card isFlush>
        <Faces
          resource={resource}
          isEmpty={(page) => page.items.length === 0}
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
          {(page) => (
            <>
              <Missing shards={page.missing} />
              <Runs runs={page.items} />
            </>
          )}
        </Faces>
      </Card>
      <Pager next={resource.data?.next ?? null} />
    </Page>
  );
}

function Runs({ runs }: { runs: readonly RunOut[] }) {
  const { t, f } = useText();
  const columns: readonly Column<RunOut>[] = [
    {
      name: "name",
      label: t.control.run,
      render: (run) => (
        <span className="inline">
          <span className="name">{run.name}</span>
          {run.partition && <span className="chip">{run.partition}</span>}
        </span>
      ),
    },
    {
      name: "status",
      label: t.field.status,
      render: (run) => (
        <span className="inline">
          <Status status={run.status} />
          {run.expired && <Badge tone="warn">{t.control.expired}</Badge>}
        </span>
      ),
    },
    {
      name: "step",
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
    {
      name: "who",
      label: t.control.who,
      render: (run) => <span className="nowrap">{run.who}</span>,
    },
    { name: "tries", label: t.control.tries, isNumber: true, render: (run) => f.number(run.tries) },
    {
      name: "started",
      label: t.field.started,
      isNumber: true,
      render: (run) => <Ago at={run.start_time} />,
    },
    {
      name: "took",
      label: t.control.took,
      isNumber: true,
      render: (run) => f.span(run.run_seconds),
    },
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

export function Progress({ run }: { run: RunOut }) {
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

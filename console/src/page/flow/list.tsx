/** Flows: their runs, and the templates that were drawn. */
import type { FlowPageOut, FlowRunOut, TemplateOut } from "../../api/flow";
import { useLive } from "../../data/hook";
import { Ago, Bar, Card, Missing, Page } from "../../part/basic";
import { Pager, Segments, Tabs } from "../../part/control";
import { Empty, Faces } from "../../part/faces";
import { Status, toneOf } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { pathOf, queryOf } from "../../route/address";
import { Link, useQuery } from "../../route/router";
import { useText } from "../../text";

const STATUSES = ["running", "failed", "succeeded", "cancelled"] as const;

export function FlowPage() {
  const { t } = useText();
  const [query, change] = useQuery();
  const tab = query.tab === "templates" ? "templates" : "runs";
  return (
    <Page
      title={t.flow.menu}
      lead={t.flow.lead}
      actions={
        <Link className="button main" to="flows/template">
          {t.flow.newTemplate}
        </Link>
      }
    >
      <Tabs
        label={t.flow.menu}
        value={tab}
        choices={[
          { value: "runs", label: t.flow.runs },
          { value: "templates", label: t.flow.templates },
        ]}
        onChoose={(next) => change({ tab: next === "runs" ? null : next })}
      />
      {tab === "runs" ? <Runs /> : <Templates />}
    </Page>
  );
}

function Runs() {
  const { t, f } = useText();
  const [query, change] = useQuery();
  const { status, kind, after } = query;
  const resource = useLive<FlowPageOut>(`flows${queryOf({ status, kind, after })}`, [
    "flows",
    "tasks",
  ]);
  const columns: readonly Column<FlowRunOut>[] = [
    { name: "id", label: t.field.task, render: (run) => <span className="id">{run.id}</span> },
    {
      name: "kind",
      label: t.field.kind,
      render: (run) => <span className="name">{run.kind}</span>,
    },
    { name: "status", label: t.field.status, render: (run) => <Status status={run.status} /> },
    {
      name: "key",
      label: t.field.key,
      isWide: true,
      render: (run) => (
        <span className="stack">
          {run.key !== null && <span className="name clip">{run.key}</span>}
          {run.remark && <small className="clip">{run.remark}</small>}
        </span>
      ),
    },
    {
      name: "progress",
      label: t.sweep.progress,
      isNumber: true,
      render: (run) => {
        const { ended, total } = progressOf(run);
        return (
          <span className="with-bar">
            {`${f.number(ended)} / ${f.number(total)}`}
            <Bar percent={(100 * ended) / Math.max(1, total)} tone={toneOf(run.status)} />
          </span>
        );
      },
    },
    {
      name: "created",
      label: t.field.created,
      isNumber: true,
      render: (run) => <Ago at={run.created_at} />,
    },
    {
      name: "ended",
      label: t.field.ended,
      isNumber: true,
      render: (run) => <Ago at={run.finished_at} />,
    },
  ];
  return (
    <>
      <div className="filters">
        <Segments
          label={t.field.status}
          value={status ?? ""}
          choices={[
            { value: "", label: t.common.all },
            ...STATUSES.map((value) => ({ value: value as string, label: t.status[value] })),
          ]}
          onChoose={(value) => change({ status: value, after: null })}
        />
      </div>
      <Card isFlush>
        <Faces
          resource={resource}
          isEmpty={(page) => page.items.length === 0}
          empty={
            <Empty title={t.flow.none}>
              {t.flow.noneText} <Link to="flows/template">{t.flow.newTemplate}</Link>
            </Empty>
          }
        >
          {(page) => (
            <>
              <Missing shards={page.missing} />
              <Table
                label={t.flow.runs}
                columns={columns}
                rows={page.items}
                rowKey={(run) => run.id}
                to={(run) => pathOf("flows", run.id)}
              />
            </>
          )}
        </Faces>
      </Card>
      <Pager
        next={resource.data?.next ?? null}
        isFirst={!after}
        onFirst={() => change({ after: null }, false)}
        onNext={(cursor) => change({ after: cursor }, false)}
      />
    </>
  );
}

function Templates() {
  const { t, f } = useText();
  const resource = useLive<readonly TemplateOut[]>("templates", ["flows"]);
  const columns: readonly Column<TemplateOut>[] = [
    {
      name: "name",
      label: t.flow.name,
      isWide: true,
      render: (row) => <span className="name">{row.name}</span>,
    },
    {
      name: "version",
      label: t.flow.version("").trim(),
      isNumber: true,
      render: (row) => f.number(row.version),
    },
    {
      name: "nodes",
      label: t.flow.nodes,
      isNumber: true,
      render: (row) => f.number(row.spec.nodes.length),
    },
    {
      name: "saved",
      label: t.sweep.saved,
      isNumber: true,
      render: (row) => <Ago at={row.saved_at} />,
    },
  ];
  return (
    <Card isFlush>
      <Faces
        resource={resource}
        isEmpty={(rows) => rows.length === 0}
        empty={<Empty title={t.flow.noTemplates}>{t.flow.noTemplatesText}</Empty>}
      >
        {(rows) => (
          <Table
            label={t.flow.templates}
            columns={columns}
            rows={rows}
            rowKey={(row) => row.name}
            to={(row) => pathOf("flows", "template", row.name)}
          />
        )}
      </Faces>
    </Card>
  );
}

const FINAL = ["succeeded", "failed", "cancelled"];

export function progressOf(run: Pick<FlowRunOut, "counts">): { ended: number; total: number } {
  const all = Object.entries(run.counts);
  const sum = (entries: typeof all) => entries.reduce((before, [, count]) => before + count, 0);
  return { ended: sum(all.filter(([status]) => FINAL.includes(status))), total: sum(all) };
}

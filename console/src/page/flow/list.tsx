/** Flows: their runs, and the templates that were drawn. */
import { useState } from "react";
import type { FlowPage as RunsPage, FlowRunOut, StartableOut, VersionOut } from "../../api/model";
import { useLive } from "../../data/hook";
import { Ago, Button, Card, Missing, Page } from "../../part/basic";
import { Pager, Segments, Select, Tabs } from "../../part/control";
import { Empty, Faces } from "../../part/faces";
import { Status } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { pathOf, queryOf } from "../../route/address";
import { Link, useQuery } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import { Progress } from "./progress-bar";
import { StartDialog } from "./start";

const STATUSES = ["running", "failed", "succeeded", "cancelled"] as const;

export function FlowPage() {
  const { t } = useText();
  const { canAct } = useSession();
  const [query, change] = useQuery();
  const [isStarting, setStarting] = useState(false);
  const tab = query.tab === "templates" ? "templates" : "runs";
  return (
    <Page
      title={t.flow.menu}
      lead={t.flow.lead}
      actions={
        <>
          <Link className="button" to="flows/template">
            {t.flow.newTemplate}
          </Link>
          {canAct && (
            <Button icon="play" look="main" onClick={() => setStarting(true)}>
              {t.flow.startFlow}
            </Button>
          )}
        </>
      }
    >
      <Tabs
        label={t.flow.menu}
        value={tab}
        choices={[
          { value: "runs", label: t.flow.runs },
          { value: "templates", label: t.flow.templates },
        ]}
        onChoose={(next) => change({ tab: next === "runs" ? null : next, after: null })}
      />
      {tab === "runs" ? <Runs /> : <Templates />}
      {isStarting && <StartDialog onClose={() => setStarting(false)} />}
    </Page>
  );
}

function Runs() {
  const { t } = useText();
  const [query, change] = useQuery();
  const { status, flow, after } = query;
  const resource = useLive<RunsPage>(`flows${queryOf({ status, flow, after })}`, ["flows"], 10);
  const startable = useLive<readonly StartableOut[]>("flows/startable", []);
  const names = startable.data?.map((each) => each.name) ?? [];
  if (flow && !names.includes(flow)) names.unshift(flow);
  return (
    <>
      <div className="filters filter-row">
        <Segments
          label={t.field.status}
          value={status ?? ""}
          choices={[
            { value: "", label: t.common.all },
            ...STATUSES.map((value) => ({ value: value as string, label: t.status[value] })),
          ]}
          onChoose={(value) => change({ status: value, after: null })}
        />
        <Select
          label={t.flow.flow}
          value={flow ?? ""}
          choices={[
            { value: "", label: t.flow.allFlows },
            ...names.map((value) => ({ value, label: value })),
          ]}
          onChoose={(value) => change({ flow: value, after: null })}
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
              <RunTable runs={page.items} />
            </>
          )}
        </Faces>
      </Card>
      <Pager next={resource.data?.next ?? null} />
    </>
  );
}

function RunTable({ runs }: { runs: readonly FlowRunOut[] }) {
  const { t } = useText();
  const columns: readonly Column<FlowRunOut>[] = [
    {
      name: "flow",
      label: t.flow.flow,
      render: (run) => (
        <span className="stack">
          <span className="name">{run.flow}</span>
          <small className="id">{run.id}</small>
        </span>
      ),
    },
    { name: "status", label: t.field.status, render: (run) => <Status status={run.status} /> },
    {
      name: "key",
      label: t.field.key,
      isWide: true,
      render: (run) => (
        <span className="stack">
          {run.key !== null && <span className="name clip">{run.key}</span>}
          {run.error && (
            <small className="clip" title={run.error}>
              {run.error}
            </small>
          )}
        </span>
      ),
    },
    {
      name: "progress",
      label: t.flow.progress,
      isNumber: true,
      render: (run) => <Progress run={run} />,
    },
    {
      name: "created",
      label: t.field.started,
      isNumber: true,
      render: (run) => <Ago at={run.created_at} />,
    },
    {
      name: "ended",
      label: t.field.ended,
      isNumber: true,
      isExtra: true,
      render: (run) => <Ago at={run.finished_at} />,
    },
  ];
  return (
    <Table
      label={t.flow.runs}
      columns={columns}
      rows={runs}
      rowKey={(run) => run.id}
      to={(run) => pathOf("flows", run.id)}
    />
  );
}

function Templates() {
  const { t, f } = useText();
  const resource = useLive<readonly VersionOut[]>("templates", ["flows"]);
  const columns: readonly Column<VersionOut>[] = [
    { name: "name", label: t.flow.name, render: (row) => <span className="name">{row.name}</span> },
    {
      name: "arguments",
      label: t.flow.arguments,
      isWide: true,
      render: (row) => (
        <span className="inline">
          {row.arguments.map((each) => (
            <span key={each} className="chip">
              {each}
            </span>
          ))}
        </span>
      ),
    },
    {
      name: "version",
      label: t.flow.versionName,
      isNumber: true,
      render: (row) => f.number(row.version),
    },
    { name: "nodes", label: t.flow.nodes, isNumber: true, render: (row) => f.number(row.nodes) },
    {
      name: "saved",
      label: t.flow.savedAt,
      isNumber: true,
      render: (row) => <Ago at={row.saved_at} />,
    },
  ];
  return (
    <Card isFlush className="below-tabs">
      <Faces
        resource={resource}
        isEmpty={(rows) => rows.length === 0}
        empty={
          <Empty
            title={t.flow.noTemplates}
            action={
              <Link className="button main" to="flows/template">
                {t.flow.newTemplate}
              </Link>
            }
          >
            {t.flow.noTemplatesText}
          </Empty>
        }
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

/** Flows: the flow runs, and the templates. */
import { useState } from "react";
import type { Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { Ago, Button, Card, Page } from "../../part/basic";
import { Filter, Tabs } from "../../part/control";
import { Empty, Faces } from "../../part/faces";
import { PagedList } from "../../part/list";
import { Status } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { oneOf, pathOf } from "../../route/address";
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
  const [{ status, flow, after }] = useQuery();
  const resource = useLive("flows", {
    query: { status: oneOf(STATUSES, status), flow, after },
    topics: ["flows"],
    seconds: 10,
  });
  const names = useLive("flows/startable").data?.map((each) => each.name) ?? [];
  if (flow && !names.includes(flow)) names.unshift(flow);
  return (
    <>
      <div className="filters filter-row">
        <Filter name="status" label={t.field.status} values={STATUSES} words={t.status} />
        <Filter isSelect name="flow" label={t.flow.flow} all={t.flow.allFlows} values={names} />
      </div>
      <PagedList
        resource={resource}
        empty={
          <Empty title={t.flow.none}>
            {t.flow.noneText} <Link to="flows/template">{t.flow.newTemplate}</Link>
          </Empty>
        }
      >
        {(page) => <RunTable runs={page.items} />}
      </PagedList>
    </>
  );
}

function RunTable({ runs }: { runs: readonly Row<"flows">[] }) {
  const { t } = useText();
  const columns: readonly Column<Row<"flows">>[] = [
    {
      label: t.flow.flow,
      render: (run) => (
        <span className="stack">
          <span className="name">{run.flow}</span>
          <small className="id">{run.id}</small>
        </span>
      ),
    },
    { label: t.field.status, render: (run) => <Status status={run.status} /> },
    {
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
    { label: t.flow.progress, isNumber: true, render: (run) => <Progress run={run} /> },
    { label: t.field.started, isNumber: true, render: (run) => <Ago at={run.created_at} /> },
    {
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
  const resource = useLive("templates", { topics: ["flows"] });
  const columns: readonly Column<Row<"templates">>[] = [
    { label: t.flow.name, render: (row) => <span className="name">{row.name}</span> },
    {
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
    { label: t.flow.versionName, isNumber: true, render: (row) => f.number(row.version) },
    { label: t.flow.nodes, isNumber: true, render: (row) => f.number(row.nodes) },
    { label: t.flow.savedAt, isNumber: true, render: (row) => <Ago at={row.saved_at} /> },
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

/** One run of a flow: its graph as it is now, its nodes on a line of time, and one node closely. */
import { post } from "../../api/client";
import type { FlowDetailOut, FlowNodeOut, FlowRunOut } from "../../api/flow";
import type { Done } from "../../api/model";
import { useLive, useNow } from "../../data/hook";
import { prettyJson, toMilliseconds } from "../../format/format";
import { Ago, Button, Card, Facts, Page, Plain } from "../../part/basic";
import { Tabs } from "../../part/control";
import { useConfirm } from "../../part/dialog";
import { Empty, Faces } from "../../part/faces";
import { Graph } from "../../part/graph";
import { iconOf, Status, toneOf } from "../../part/status";
import { Timeline } from "../../part/timeline";
import { useAction } from "../../part/toast";
import { pathOf } from "../../route/address";
import { Link, useQuery } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";

export function FlowDetailPage({ id }: { id: string }) {
  const { t } = useText();
  const resource = useLive<FlowDetailOut>(pathOf("flows", id), ["flows", "tasks"], 3);
  const run = resource.data?.run;
  return (
    <Page
      up={{ to: "flows", label: t.flow.menu }}
      title={
        <span className="title-row">
          {t.flow.run(id)}
          {run && <Status status={run.status} />}
        </span>
      }
      lead={run?.kind}
      actions={run && <RunActions run={run} />}
    >
      <Faces resource={resource} lines={10}>
        {(data) => <Full data={data} />}
      </Faces>
    </Page>
  );
}

function Full({ data }: { data: FlowDetailOut }) {
  const { t } = useText();
  const [query, change] = useQuery();
  const tab = query.tab === "time" ? "time" : "graph";
  const node = data.nodes.find((each) => each.name === query.node);
  return (
    <div className="columns even">
      <div className="main-column">
        <Card>
          <Tabs
            label={t.flow.menu}
            value={tab}
            choices={[
              { value: "graph", label: t.flow.graph },
              { value: "time", label: t.flow.gantt },
            ]}
            onChoose={(next) => change({ tab: next === "graph" ? null : next })}
          />
          {tab === "graph" ? (
            <Graph
              label={t.flow.graph}
              nodes={data.nodes.map((each) => ({
                name: each.name,
                kind: each.kind,
                status: each.status,
                openSlots: each.status === "blocked" ? each.open_slots : 0,
              }))}
              edges={data.edges}
              selected={node?.name ?? null}
              onSelect={(name) => change({ node: name })}
            />
          ) : (
            <Gantt nodes={data.nodes} onPick={(name) => change({ node: name })} />
          )}
        </Card>
      </div>
      <div className="side-column">
        {node ? (
          <NodePanel run={data.run.id} node={node} />
        ) : (
          <Card title={t.flow.node}>
            <p className="faint">{t.flow.pick}</p>
          </Card>
        )}
      </div>
    </div>
  );
}

interface GanttProps {
  nodes: readonly FlowNodeOut[];
  onPick: (name: string) => void;
}

function Gantt({ nodes, onPick }: GanttProps) {
  const { t } = useText();
  const now = useNow();
  const begun = nodes.filter((node) => node.started_at !== null);
  if (begun.length === 0) return <Empty title={t.flow.notBegun} />;
  const rows = begun
    .map((node) => {
      const begin = toMilliseconds(node.started_at ?? 0);
      return {
        key: node.name,
        name: (
          <button type="button" className="as-link" onClick={() => onPick(node.name)}>
            {node.name}
          </button>
        ),
        begin,
        end: node.finished_at === null ? Math.max(begin, now) : toMilliseconds(node.finished_at),
        tone: toneOf(node.status),
        icon: iconOf(node.status),
      };
    })
    .sort((one, other) => one.begin - other.begin);
  return <Timeline label={t.flow.gantt} rows={rows} />;
}

function NodePanel({ run, node }: { run: number; node: FlowNodeOut }) {
  const { t, f } = useText();
  const rules: Readonly<Record<string, string>> = t.flow.triggers;
  const facts = [
    [
      t.field.kind,
      <Link key="kind" to={pathOf("switches", node.kind)}>
        {node.kind}
      </Link>,
    ],
    [
      t.field.task,
      <Link key="task" className="id" to={pathOf("tasks", node.id)}>
        {node.id}
      </Link>,
    ],
    [t.flow.rule, rules[node.rule] ?? node.rule],
    [t.field.attempt, f.number(node.attempt)],
    [t.field.due, <Ago key="due" at={node.due_at} />],
    [t.field.started, <Ago key="started" at={node.started_at} />],
    [t.field.ended, <Ago key="ended" at={node.finished_at} />],
  ] as const;
  return (
    <Card title={node.name} aside={<Status status={node.status} />}>
      <Facts facts={facts} />
      {node.error && <Plain text={node.error} label={t.field.error} />}
      {node.result !== null && <Plain text={prettyJson(node.result)} label={t.flow.result} />}
      <NodeActions run={run} node={node} />
    </Card>
  );
}

function NodeActions({ run, node }: { run: number; node: FlowNodeOut }) {
  const { t, f } = useText();
  const { canAct } = useSession();
  const confirm = useConfirm();
  const action = useAction();
  if (!canAct || node.status === "succeeded") return null;
  const retry = () =>
    action.run(
      () => post<Done>(pathOf("flows", run, "retry"), { node: node.name }),
      (done) => t.flow.retried(f.number(done.changed)),
    );
  const skip = async () => {
    const isSure = await confirm({
      title: t.flow.skipTitle(node.name),
      text: t.flow.skipText,
      action: t.flow.skip,
      isDanger: true,
    });
    if (isSure === null) return;
    await action.run(
      () => post<Done>(pathOf("flows", run, "skip"), { node: node.name }),
      () => t.flow.skipped(node.name),
    );
  };
  return (
    <div className="dialog-actions">
      <Button isBusy={action.isBusy} onClick={() => void skip()}>
        {t.flow.skip}
      </Button>
      {node.status === "failed" && (
        <Button icon="retry" look="main" isBusy={action.isBusy} onClick={() => void retry()}>
          {t.flow.retryNode}
        </Button>
      )}
    </div>
  );
}

function RunActions({ run }: { run: FlowRunOut }) {
  const { t, f } = useText();
  const { canAct } = useSession();
  const confirm = useConfirm();
  const action = useAction();
  if (!canAct) return null;
  const retry = () =>
    action.run(
      () => post<Done>(pathOf("flows", run.id, "retry"), {}),
      (done) => t.flow.retried(f.number(done.changed)),
    );
  const cancel = async () => {
    const reason = await confirm({
      title: t.flow.cancelTitle(run.id),
      text: t.flow.cancelText,
      action: t.flow.cancel,
      isDanger: true,
      reason: true,
    });
    if (reason === null) return;
    await action.run(
      () => post<Done>(pathOf("flows", run.id, "cancel"), { reason }),
      () => t.flow.cancelled(run.id),
    );
  };
  const hasEnded = ["succeeded", "failed", "cancelled"].includes(run.status);
  return (
    <>
      {(run.counts.failed ?? 0) > 0 && (
        <Button icon="retry" look="main" isBusy={action.isBusy} onClick={() => void retry()}>
          {t.flow.retryAll}
        </Button>
      )}
      {!hasEnded && (
        <Button icon="cancel" look="danger" isBusy={action.isBusy} onClick={() => void cancel()}>
          {t.flow.cancel}
        </Button>
      )}
    </>
  );
}

/** One node of a flow run: its status, neighbours, arguments, result and errors. */
import type { Answer } from "../../../api/call";
import { post } from "../../../api/client";
import { useLive, useNow } from "../../../data/hook";
import { prettyJson } from "../../../format/format";
import { Ago, Button, Card, Facts, Plain } from "../../../part/basic";
import { Faces } from "../../../part/faces";
import { Icon } from "../../../part/icon";
import { iconOf, Status, toneOf } from "../../../part/status";
import { useAsk } from "../../../part/ask";
import { pathOf } from "../../../route/address";
import { Link, useQuery } from "../../../route/router";
import { useSession } from "../../../shell/session";
import { useText } from "../../../text";
import { secondsOf, type FlowNode } from "../progress";

type Detail = Answer<"flows/{number}/node">;

interface PanelProps {
  run: number;
  name: string;
  isWhole: boolean;
}

export function NodePanel({ run, name, isWhole }: PanelProps) {
  const { t } = useText();
  const [query, change] = useQuery();
  const resource = useLive("flows/{number}/node", {
    params: { number: run },
    query: { name },
    topics: ["flows", "tasks", "failures"],
    seconds: 3,
  });
  const close = (
    <Button
      look="quiet"
      icon="close"
      aria-label={t.common.close}
      onClick={() => change({ node: null })}
    />
  );
  return (
    <Card title={<span className="name">{name}</span>} aside={close} className="node-panel">
      <Faces resource={resource}>
        {(data) => (
          <>
            <Summary data={data} />
            <Actions run={run} node={data.node}>
              {(!isWhole || query.around) && query.around !== name && (
                <Button icon="search" onClick={() => change({ around: name, tab: null })}>
                  {t.flow.around}
                </Button>
              )}
            </Actions>
            <Surroundings data={data} />
          </>
        )}
      </Faces>
    </Card>
  );
}

/** Its status, and why it failed. */
function Summary({ data }: { data: Detail }) {
  const { t, f } = useText();
  const now = useNow();
  const { node } = data;
  const rules: Readonly<Record<string, string>> = t.flow.triggers;
  const seconds = secondsOf(node, now);
  const facts: (readonly [string, React.ReactNode])[] = [
    [t.field.status, <Status key="status" status={node.status} />],
    [
      t.field.kind,
      <Link key="kind" to={pathOf("switches", node.kind)}>
        {node.kind}
      </Link>,
    ],
    [
      t.flow.seeTask,
      <Link key="task" className="id" to={pathOf("tasks", node.id)}>
        {node.id}
      </Link>,
    ],
  ];
  if (node.slots > 0) {
    facts.push([t.flow.rule, rules[node.rule] ?? node.rule]);
    facts.push([t.flow.slotsName, t.flow.slots(node.open_slots, node.slots)]);
  }
  if (data.when) facts.push([t.flow.when, <code key="when">{data.when}</code>]);
  if (data.handle)
    facts.push([
      t.flow.handle,
      <span key="handle" className="name">
        {data.handle}
      </span>,
    ]);
  facts.push([t.field.attempt, f.number(node.attempt)]);
  if (node.due_at && node.status !== "running")
    facts.push([t.field.due, <Ago key="due" at={node.due_at} />]);
  if (node.started_at) facts.push([t.field.started, <Ago key="started" at={node.started_at} />]);
  if (node.finished_at) facts.push([t.field.ended, <Ago key="ended" at={node.finished_at} />]);
  if (seconds !== null) facts.push([t.flow.took, f.span(seconds)]);
  return (
    <>
      <Facts facts={facts} />
      {node.error && <Plain text={node.error} label={t.field.error} />}
      {data.failures[0] && (
        <details>
          <summary>{t.task.trace}</summary>
          <Plain text={data.failures[0].trace} label={t.task.trace} />
        </details>
      )}
    </>
  );
}

function Surroundings({ data }: { data: Detail }) {
  const { t } = useText();
  return (
    <>
      <Neighbours title={t.flow.waitsFor} nodes={data.waits_for} />
      <Neighbours title={t.flow.before} nodes={data.before} />
      {data.arguments !== "{}" && (
        <>
          <h3>{t.flow.arguments}</h3>
          <Plain text={prettyJson(data.arguments)} label={t.flow.arguments} />
        </>
      )}
      {data.result !== null && data.result !== "null" && (
        <>
          <h3>{t.flow.result}</h3>
          <Plain text={prettyJson(data.result)} label={t.flow.result} />
        </>
      )}
    </>
  );
}

function Neighbours({ title, nodes }: { title: string; nodes: readonly FlowNode[] }) {
  const [, change] = useQuery();
  const { t } = useText();
  const words: Readonly<Record<string, string>> = t.status;
  if (nodes.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul className="neighbours">
        {nodes.map((node) => (
          <li key={node.id}>
            <button
              type="button"
              className={`chip tone-${toneOf(node.status)}`}
              onClick={() => change({ node: node.name })}
            >
              <Icon name={iconOf(node.status)} label={words[node.status] ?? node.status} />
              {node.name}
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

interface ActionProps {
  run: number;
  node: FlowNode;
  children: React.ReactNode;
}

function Actions({ run, node, children }: ActionProps) {
  const { t, f } = useText();
  const { canAct } = useSession();
  const action = useAsk();
  const retry = () =>
    action.run(
      () => post("flows/{number}/retry", { params: { number: run }, body: { node: node.name } }),
      (done) => t.flow.retried(f.number(done.changed)),
    );
  const skip = () =>
    action.ask(
      {
        title: t.flow.skipTitle(node.name),
        text: t.flow.skipText,
        action: t.flow.skip,
        isDanger: true,
      },
      () => post("flows/{number}/skip", { params: { number: run }, body: { node: node.name } }),
      () => t.flow.skipped(node.name),
    );
  const mayAct = canAct && node.status !== "succeeded" && !node.is_skipped;
  // A node that failed because others did runs again with them.
  const isOwnFailure = node.status === "failed" && node.attempt > 0;
  return (
    <div className="panel-actions">
      {children}
      {mayAct && (
        <Button isBusy={action.isBusy} onClick={() => void skip()}>
          {t.flow.skip}
        </Button>
      )}
      {mayAct && isOwnFailure && (
        <Button icon="retry" look="main" isBusy={action.isBusy} onClick={() => void retry()}>
          {t.flow.retryNode}
        </Button>
      )}
    </div>
  );
}

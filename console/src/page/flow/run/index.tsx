/** One flow run: its graph, its nodes on a timeline or in a list, and details of one node. */
import { useState } from "react";
import type { Answer } from "../../../api/call";
import { post } from "../../../api/client";
import { useLive, useNow } from "../../../data/hook";
import { prettyJson, toMilliseconds } from "../../../format/format";
import { Ago, Button, Card, Facts, Note, Page, Plain } from "../../../part/basic";
import { Tabs } from "../../../part/control";
import { Faces } from "../../../part/faces";
import { Graph } from "../../../part/picture/graph";
import { Status, toneOf } from "../../../part/status";
import { useAsk } from "../../../part/ask";
import { pathOf, queryOf } from "../../../route/address";
import { Link, useQuery } from "../../../route/router";
import { useSession } from "../../../shell/session";
import { useText } from "../../../text";
import { RunChange } from "./change";
import { RunExport } from "../export";
import { Gantt } from "./gantt";
import { NodePanel } from "./node-panel";
import { NodeTable } from "./node-table";
import { useGraphNodes } from "./graph-node";
import { FINAL } from "../progress";

export type Detail = Answer<"flows/{number}">;
type Run = Detail["run"];

const STATES = [
  "succeeded",
  "running",
  "external",
  "waiting",
  "blocked",
  "cancelled",
  "failed",
] as const;

export function FlowDetailPage({ id }: { id: string }) {
  const { t } = useText();
  const [query, change] = useQuery();
  const resource = useLive("flows/{number}", {
    params: { number: id },
    query: { around: query.around },
    topics: ["flows", "tasks"],
    seconds: 3,
  });
  const data = resource.data;
  const isChanging = query.change === "1" && data?.run.status === "running";
  return (
    <Page
      up={{ to: "flows", label: t.flow.menu }}
      title={data?.run.flow ?? t.flow.run(id)}
      badge={data && <Status status={data.run.status} />}
      lead={<Lead id={id} run={data?.run} />}
      actions={
        data && (
          <RunActions
            data={data}
            isChanging={isChanging}
            onChange={() => change({ change: isChanging ? null : "1", tab: null })}
          />
        )
      }
    >
      <Faces resource={resource} lines={10}>
        {(found) =>
          isChanging ? (
            <RunChange data={found} onDone={() => change({ change: null })} />
          ) : (
            <Full data={found} />
          )
        }
      </Faces>
    </Page>
  );
}

function Lead({ id, run }: { id: string; run: Run | undefined }) {
  const { t, f } = useText();
  return (
    <span className="inline">
      <span>{t.flow.run(id)}</span>
      {run?.key && <span className="chip">{run.key}</span>}
      {run?.template && (
        <Link to={pathOf("flows", "template", run.template) + queryOf({ version: run.version })}>
          {t.flow.version(f.number(run.version))}
        </Link>
      )}
    </span>
  );
}

function Full({ data }: { data: Detail }) {
  const { t } = useText();
  const [query, change] = useQuery();
  const tab = query.tab === "time" || query.tab === "nodes" ? query.tab : "graph";
  const pick = (node: string | null) => change({ node });
  return (
    <>
      {data.run.error && <Note tone={noteTone(data.run)}>{data.run.error}</Note>}
      <States data={data} />
      <div className="columns even">
        <div className="main-column">
          <Card>
            <Tabs
              label={t.flow.menu}
              value={tab}
              choices={[
                { value: "graph", label: t.flow.graph },
                { value: "time", label: t.flow.gantt },
                { value: "nodes", label: t.flow.nodes },
              ]}
              onChoose={(next) => change({ tab: next === "graph" ? null : next })}
            />
            {tab !== "nodes" && <Partial data={data} />}
            {tab === "graph" && <Drawn data={data} selected={query.node} onPick={pick} />}
            {tab === "time" && <Gantt nodes={data.nodes} onPick={pick} />}
            {tab === "nodes" && <NodeTable run={data.run.id} />}
          </Card>
        </div>
        <div className="side-column">
          {query.node ? (
            <NodePanel run={data.run.id} name={query.node} isWhole={data.is_whole} />
          ) : (
            <RunFacts data={data} />
          )}
        </div>
      </div>
    </>
  );
}

function noteTone(run: Run): "bad" | "calm" {
  return run.status === "failed" ? "bad" : "calm";
}

interface DrawnProps {
  data: Detail;
  selected: string | undefined;
  onPick: (name: string | null) => void;
}

function Drawn({ data, selected, onPick }: DrawnProps) {
  const { t } = useText();
  const nodes = useGraphNodes(data.nodes);
  return (
    <Graph
      label={t.flow.graph}
      nodes={nodes}
      edges={data.edges}
      inside={data.inside}
      selected={selected ?? null}
      onSelect={onPick}
    />
  );
}

/** Says which part of a graph is drawn, if it is too large. */
function Partial({ data }: { data: Detail }) {
  const { t, f } = useText();
  const [query, change] = useQuery();
  if (data.is_whole) return null;
  return (
    <p className="graph-part">
      <span>{t.flow.partial(f.number(data.nodes.length), f.number(data.total))}</span>
      {query.around && (
        <button type="button" className="as-link" onClick={() => change({ around: null })}>
          {t.flow.whole}
        </button>
      )}
    </p>
  );
}

/** How many nodes have each status, as a bar and as links to their lists. */
function States({ data }: { data: Detail }) {
  const { t, f } = useText();
  const [, change] = useQuery();
  const there = STATES.filter((state) => (data.counts[state] ?? 0) > 0);
  return (
    <div className="states">
      <div className="states-bar" aria-hidden>
        {there.map((state) => (
          <span
            key={state}
            className={`tone-${toneOf(state)} ${state}`}
            style={{ flexGrow: data.counts[state] ?? 0 }}
          />
        ))}
      </div>
      <ul className="states-key">
        {there.map((state) => (
          <li key={state}>
            <button
              type="button"
              className={`tone-${toneOf(state)}`}
              onClick={() => change({ tab: "nodes", status: state })}
            >
              <span className="dot" />
              <b>{f.number(data.counts[state])}</b> {t.status[state]}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

function RunFacts({ data }: { data: Detail }) {
  const { t, f } = useText();
  const now = useNow();
  const { run } = data;
  const end = run.finished_at === null ? now : toMilliseconds(run.finished_at);
  const facts = [
    [t.flow.nodes, f.number(data.total)],
    [t.field.started, <Ago key="started" at={run.created_at} />],
    [t.field.ended, <Ago key="ended" at={run.finished_at} />],
    [t.flow.took, f.span(Math.max(0, end - toMilliseconds(run.created_at)) / 1_000)],
  ] as const;
  return (
    <>
      <Card title={t.flow.run(run.id)}>
        <Facts facts={facts} />
        <p className="faint card-hint">{t.flow.pick}</p>
      </Card>
      <Card title={t.flow.arguments}>
        <Plain text={prettyJson(data.arguments)} label={t.flow.arguments} />
      </Card>
    </>
  );
}

interface ActionProps {
  data: Detail;
  isChanging: boolean;
  onChange: () => void;
}

function RunActions({ data, isChanging, onChange }: ActionProps) {
  const { t, f } = useText();
  const { canAct } = useSession();
  const action = useAsk();
  const [isExporting, setExporting] = useState(false);
  const { run } = data;
  const retry = () =>
    action.run(
      () => post("flows/{number}/retry", { params: { number: run.id }, body: {} }),
      (done) => t.flow.retried(f.number(done.changed)),
    );
  const cancel = () =>
    action.ask(
      {
        title: t.flow.cancelTitle(run.id),
        text: t.flow.cancelText,
        action: t.flow.cancel,
        isDanger: true,
        reason: true,
      },
      (reason) => post("flows/{number}/cancel", { params: { number: run.id }, body: { reason } }),
      () => t.flow.cancelled(run.id),
    );
  const hasEnded = FINAL.includes(run.status);
  const hasFailed = (data.counts.failed ?? 0) > 0 || run.status === "cancelled";
  return (
    <>
      <Button icon="copy" onClick={() => setExporting(true)}>
        {t.flow.export}
      </Button>
      {canAct && !hasEnded && (
        <Button icon="flow" aria-pressed={isChanging} onClick={onChange}>
          {t.flow.change}
        </Button>
      )}
      {canAct && hasFailed && (
        <Button icon="retry" look="main" isBusy={action.isBusy} onClick={() => void retry()}>
          {t.flow.retryAll}
        </Button>
      )}
      {canAct && !hasEnded && (
        <Button icon="cancel" look="danger" isBusy={action.isBusy} onClick={() => void cancel()}>
          {t.flow.cancel}
        </Button>
      )}
      {isExporting && <RunExport run={run.id} onClose={() => setExporting(false)} />}
    </>
  );
}

/** The first page: kinds, the last hour, alerts, flows, failures and workers. */
import type { Answer } from "../../api/call";
import { useLive } from "../../data/hook";
import { Ago, BadCount, Card, Figure, Figures, Missing, Page } from "../../part/basic";
import { MinuteChart } from "../../part/picture/chart";
import { Empty, Faces } from "../../part/faces";
import { KindName } from "../../part/family";
import { Said } from "../../part/said";
import { Badge, Heartbeat, Status } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { pathOf } from "../../route/address";
import { Link } from "../../route/router";
import { useText } from "../../text";
import { Progress } from "../flow/progress-bar";

type Overview = Answer<"overview">;
type Kinds = Overview["kinds"];

export function OverviewPage() {
  const { t } = useText();
  const resource = useLive("overview", {
    topics: ["tasks", "failures", "alerts", "switches", "workers", "sweeps", "flows"],
    seconds: 10,
  });
  return (
    <Page title={t.menu.overview} lead={resource.data?.database}>
      <Faces resource={resource} lines={12}>
        {(data) => <Full data={data} />}
      </Faces>
    </Page>
  );
}

function Full({ data }: { data: Overview }) {
  const { t } = useText();
  const held = data.kinds.filter((kind) => kind.is_held_back);
  return (
    <>
      <Missing shards={data.missing} />
      <Sums data={data} held={held} />
      <div className="columns overview-columns">
        <div className="main-column">
          <Card title={t.overview.lastHour}>
            <MinuteChart minutes={data.minutes} label={t.overview.lastHour} />
          </Card>
          <Card title={t.overview.kinds} isFlush>
            <KindTable kinds={[...held, ...data.kinds.filter((kind) => !kind.is_held_back)]} />
          </Card>
        </div>
        <div className="side-column">
          <Alerts alerts={data.alerts} />
          <Flows flows={data.flows} />
          <Failures failures={data.failures} />
          <Workers workers={data.workers} />
        </div>
      </div>
    </>
  );
}

function Sums({ data, held }: { data: Overview; held: Kinds }) {
  const { t, f } = useText();
  const sum = (pick: (kind: Kinds[number]) => number) =>
    data.kinds.reduce((all, kind) => all + pick(kind), 0);
  const done = sum((kind) => kind.done_last_hour);
  const failed = sum((kind) => kind.failed_last_hour);
  const alive = data.workers.filter((worker) => worker.is_alive).length;
  const last = data.minutes.at(-2);
  return (
    <Figures>
      <Figure
        label={t.overview.done}
        value={f.number(done)}
        note={t.overview.perMinute(f.number(last?.done ?? 0))}
      />
      <Figure
        label={t.overview.failed}
        value={f.number(failed)}
        note={done + failed > 0 ? f.percent((100 * failed) / (done + failed)) : "–"}
        tone={failed > 0 && "bad"}
        to="tasks?status=failed"
      />
      <Figure
        label={t.overview.running}
        value={f.number(sum((kind) => kind.running))}
        note={t.overview.dueNow(f.number(sum((kind) => kind.due)))}
        to="tasks?status=running"
      />
      <Figure
        label={t.overview.heldBack}
        value={f.number(held.length)}
        note={t.overview.ofKinds(f.number(data.kinds.length))}
        tone={held.length > 0 && "warn"}
        to="switches"
      />
      <Figure
        label={t.overview.workers}
        value={f.number(alive)}
        note={
          data.workers.length > alive
            ? t.overview.silent(f.number(data.workers.length - alive))
            : t.overview.alive
        }
        tone={alive === 0 && "bad"}
        to="ring"
      />
    </Figures>
  );
}

function KindTable({ kinds }: { kinds: Kinds }) {
  const { t, f } = useText();
  if (kinds.length === 0) return <Empty title={t.overview.noKinds}>{t.overview.noKindsText}</Empty>;
  const columns: readonly Column<Kinds[number]>[] = [
    { label: t.field.kind, render: (kind) => <KindName kind={kind} /> },
    {
      label: t.field.state,
      isWide: true,
      render: (kind) => (
        <span className={kind.is_held_back ? "why held" : "why"} title={kind.why}>
          {kind.is_held_back && (
            <Badge tone="warn" icon="pause">
              {t.overview.held}
            </Badge>
          )}
          <span>{kind.says && <Said said={kind.says} />}</span>
        </span>
      ),
    },
    { label: t.field.due, isNumber: true, render: (kind) => f.count(kind.due) },
    { label: t.field.running, isNumber: true, render: (kind) => f.count(kind.running) },
    { label: t.field.doneHour, isNumber: true, render: (kind) => f.number(kind.done_last_hour) },
    {
      label: t.field.failedHour,
      isNumber: true,
      render: (kind) => <BadCount value={kind.failed_last_hour} />,
    },
    {
      label: t.field.average,
      isNumber: true,
      isExtra: true,
      render: (kind) => f.milliseconds(kind.average_milliseconds),
    },
  ];
  return (
    <Table
      label={t.overview.kinds}
      columns={columns}
      rows={kinds}
      rowKey={(kind) => kind.kind}
      to={(kind) => pathOf("switches", kind.kind)}
    />
  );
}

function Alerts({ alerts }: { alerts: Overview["alerts"] }) {
  const { t } = useText();
  return (
    <Card title={t.menu.alerts} aside={<Link to="alerts">{t.common.all}</Link>}>
      {alerts.length === 0 && <p className="faint">{t.overview.noAlerts}</p>}
      <ul className="feed">
        {alerts.map((alert) => (
          <li key={alert.id} className={alert.is_open ? undefined : "muted"}>
            <Link to={alert.task_id === null ? "alerts" : pathOf("tasks", alert.task_id)}>
              {alert.text}
            </Link>
            <small>
              <Ago at={alert.raised_at} />
              {alert.kind && ` · ${alert.kind}`}
              {alert.seen_by && ` · ${t.alert.seenBy(alert.seen_by)}`}
            </small>
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** Flow runs that are running, and those that failed. */
function Flows({ flows }: { flows: Overview["flows"] }) {
  const { t } = useText();
  const runs = [...flows.running, ...flows.failed];
  return (
    <Card title={t.overview.flows} aside={<Link to="flows">{t.common.all}</Link>}>
      {runs.length === 0 && <p className="faint">{t.overview.noFlows}</p>}
      <ul className="feed">
        {runs.map((run) => (
          <li key={run.id} className="line">
            <span className="stack">
              <Link to={pathOf("flows", run.id)} className="name clip">
                {run.flow}
              </Link>
              <small>
                <Ago at={run.created_at} />
                {run.key && ` · ${run.key}`}
              </small>
            </span>
            {run.status === "running" ? <Progress run={run} /> : <Status status={run.status} />}
          </li>
        ))}
      </ul>
    </Card>
  );
}

const FAILURES_SHOWN = 5;

function Failures({ failures }: { failures: Overview["failures"] }) {
  const { t } = useText();
  const shown = failures.slice(0, FAILURES_SHOWN);
  return (
    <Card title={t.overview.failures} aside={<Link to="tasks?status=failed">{t.common.all}</Link>}>
      {shown.length === 0 && <p className="faint">{t.overview.noFailures}</p>}
      <ul className="feed">
        {shown.map((failure) => (
          <li key={failure.id}>
            <Link to={pathOf("tasks", failure.task_id)} className="clip">
              {failure.error}
            </Link>
            <small>
              <Ago at={failure.failed_at} />
              {` · ${failure.kind} · ${t.task.attemptOf(failure.attempt)}`}
            </small>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Workers({ workers }: { workers: Overview["workers"] }) {
  const { t } = useText();
  return (
    <Card title={t.overview.workers} aside={<Link to="ring">{t.menu.ring}</Link>}>
      {workers.length === 0 && (
        <p className="faint">
          {t.overview.noWorkers} <code>windlass worker</code>
        </p>
      )}
      <ul className="feed">
        {workers.map((worker) => (
          <li key={worker.id} className="line">
            <span>
              <span className="name">{worker.host}</span>{" "}
              <span className="faint">{worker.pid}</span>
            </span>
            <Heartbeat worker={worker} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** One task: its status and times, arguments, result, errors and logs. */
import { useEffect, useState } from "react";
import type { Answer } from "../../api/call";
import { post } from "../../api/client";
import { useLive } from "../../data/hook";
import { prettyJson } from "../../format/format";
import { Ago, Button, Card, Facts, Missing, Page, Plain } from "../../part/basic";
import { Find } from "../../part/control";
import { Faces } from "../../part/faces";
import { Progress } from "./progress";
import { Status } from "../../part/status";
import { useAsk } from "../../part/ask";
import { pathOf, queryOf } from "../../route/address";
import { Link, useQuery } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";

type Detail = Answer<"tasks/{number}">;

export function TaskDetailPage({ id }: { id: string }) {
  const { t } = useText();
  const [isRunning, setRunning] = useState(false);
  const resource = useLive("tasks/{number}", {
    params: { number: id },
    topics: ["tasks", "failures"],
    // How far it is is told by no topic.
    seconds: isRunning ? 2 : 0,
  });
  const status = resource.data?.task.status;
  useEffect(() => setRunning(status === "running"), [status]);
  const task = resource.data?.task;
  return (
    <Page
      up={{ to: "tasks", label: t.menu.tasks }}
      title={t.task.title(id)}
      badge={task && <Status status={task.status} />}
      lead={task && <Link to={pathOf("switches", task.kind)}>{task.kind}</Link>}
      actions={task && <Actions task={task} />}
    >
      <Faces resource={resource} lines={10}>
        {(data) => <Full data={data} />}
      </Faces>
    </Page>
  );
}

function Full({ data }: { data: Detail }) {
  const { t, f } = useText();
  const { task, failures } = data;
  const facts = [
    [t.field.key, task.key === null ? null : <span className="name">{task.key}</span>],
    ...(data.flow === null
      ? []
      : [[t.flow.flow, <RunLink key="flow" flow={data.flow} />] as const]),
    ...(task.lane === null
      ? []
      : [
          [
            t.task.lane,
            <span key="lane" className="name">
              {task.lane}
            </span>,
          ] as const,
        ]),
    [t.field.due, <Ago key="due" at={task.due_at} />],
    [t.field.attempt, f.number(task.attempt)],
    [t.task.lostLabel, f.number(task.lost)],
    [t.field.priority, f.number(task.priority)],
    [t.field.created, <Ago key="created" at={task.created_at} />],
    [t.field.started, <Ago key="started" at={task.started_at} />],
    [t.field.ended, <Ago key="ended" at={task.finished_at} />],
    ...(task.via === null
      ? []
      : [
          [
            t.switch.via,
            <Link key="via" to={pathOf("queues", task.via)}>
              {task.via}
            </Link>,
          ] as const,
        ]),
    ...(task.isolate === null ? [] : ([[t.switch.isolate, task.isolate]] as const)),
    [t.field.worker, task.worker === null ? null : <span className="id">{task.worker}</span>],
    [t.task.batch, task.batch === null ? null : <span className="id">{task.batch}</span>],
    [t.task.bucket, f.number(task.bucket)],
    [t.field.shard, data.shard],
  ] as const;
  return (
    <>
      <Missing shards={data.missing} />
      <div className="columns even">
        <div className="main-column">
          {task.progress && (
            <Card title={t.task.progress} aside={<Ago at={task.progress.at} />}>
              <Progress progress={task.progress} isFull />
            </Card>
          )}
          {failures.length > 0 && <Failures failures={failures} />}
          <Logs id={task.id} />
          <Card title={t.task.payload}>
            <Plain text={prettyJson(task.payload)} label={t.task.payload} />
          </Card>
          {task.result !== null && (
            <Card title={t.task.result}>
              <Plain text={prettyJson(task.result)} label={t.task.result} />
            </Card>
          )}
        </div>
        <div className="side-column">
          {task.remark && (
            <Card title={t.field.remark}>
              <p className="plain-text">{task.remark}</p>
            </Card>
          )}
          <Card title={t.task.details}>
            <Facts facts={facts} />
          </Card>
        </div>
      </div>
    </>
  );
}

function RunLink({ flow }: { flow: NonNullable<Detail["flow"]> }) {
  const { t } = useText();
  return (
    <Link to={pathOf("flows", flow.run) + queryOf({ node: flow.node })}>
      {t.flow.run(flow.run)}
    </Link>
  );
}

function Failures({ failures }: { failures: Detail["failures"] }) {
  const { t, f } = useText();
  const [open, setOpen] = useState<number | null>(failures[0]?.id ?? null);
  return (
    <Card title={t.task.errors} aside={<span className="faint">{f.number(failures.length)}</span>}>
      <ul className="errors">
        {failures.map((failure) => (
          <li key={failure.id}>
            <button
              type="button"
              aria-expanded={open === failure.id}
              onClick={() => setOpen(open === failure.id ? null : failure.id)}
            >
              <span className="text-bad clip">{failure.error}</span>
              <small>
                {t.task.attemptOf(failure.attempt)} · <Ago at={failure.failed_at} />
              </small>
            </button>
            {open === failure.id && <Plain text={failure.trace} label={t.task.trace} />}
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** What its runs logged; nothing if its kind does not keep that. */
function Logs({ id }: { id: number }) {
  const { t, f } = useText();
  const [{ log }] = useQuery();
  const { data } = useLive("tasks/{number}/logs", {
    params: { number: id },
    query: { search: log },
    topics: ["tasks", "failures"],
  });
  if (!data || (data.runs.length === 0 && !log)) return null;
  return (
    <Card title={t.task.logs} aside={<Find name="log" label={t.task.searchLog} />}>
      {data.runs.length === 0 && <p className="faint">{t.task.noLog}</p>}
      {data.runs.map((run) => (
        <section key={run.id} aria-label={t.task.attemptOf(run.attempt)}>
          <small>
            {t.task.attemptOf(run.attempt)} · <Ago at={run.ended_at} />
            {run.dropped > 0 && <> · {t.task.dropped(f.number(run.dropped))}</>}
          </small>
          <Plain
            label={t.task.logs}
            text={run.lines
              .map((line) => `${line.at} ${line.level} ${line.logger}: ${line.text}`)
              .join("\n")}
          />
        </section>
      ))}
    </Card>
  );
}

function Actions({ task }: { task: Detail["task"] }) {
  const { t } = useText();
  const { canAct } = useSession();
  const action = useAsk();
  if (!canAct) return null;

  const retry = () =>
    action.run(
      () => post("tasks/{number}/retry", { params: { number: task.id } }),
      () => t.task.retried(task.id),
    );
  const cancel = () =>
    action.ask(
      {
        title: t.task.cancelTitle(task.id),
        text: t.task.cancelText,
        action: t.task.cancel,
        isDanger: true,
        reason: true,
      },
      (reason) => post("tasks/{number}/cancel", { params: { number: task.id }, body: { reason } }),
      () => t.task.cancelled(task.id),
    );
  return (
    <>
      {task.can_retry && (
        <Button icon="retry" look="main" isBusy={action.isBusy} onClick={() => void retry()}>
          {t.task.retry}
        </Button>
      )}
      {task.can_cancel && (
        <Button icon="cancel" look="danger" isBusy={action.isBusy} onClick={() => void cancel()}>
          {t.task.cancel}
        </Button>
      )}
    </>
  );
}

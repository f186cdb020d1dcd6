/** One control run: its steps on a timeline, where it stopped, and its earlier tries. */
import type { ReactNode } from "react";
import { post } from "../../api/client";
import { useLive, useNow } from "../../data/hook";
import { prettyJson, toMilliseconds } from "../../format/format";
import { Ago, Button, Card, Facts, Note, Page, Plain } from "../../part/basic";
import { Empty, Faces } from "../../part/faces";
import { Badge, Status } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { Timeline, type Row } from "../../part/picture/timeline";
import { useAsk } from "../../part/ask";
import { useQuery } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import { Progress, type Run } from ".";

export function ControlDetailPage({ name }: { name: string }) {
  const { t } = useText();
  const [query] = useQuery();
  const partition = query.partition ?? "";
  const resource = useLive("control/{name}", {
    params: { name },
    query: { partition },
    topics: ["control"],
  });
  const run = resource.data?.run;
  return (
    <Page
      up={{ to: "control", label: t.menu.control }}
      title={name}
      badge={
        <>
          {partition && <span className="chip">{partition}</span>}
          {run && <Status status={run.status} />}
          {run?.expired && <Badge tone="warn">{t.control.expired}</Badge>}
        </>
      }
      actions={run && <Actions run={run} />}
    >
      <Faces resource={resource} lines={8}>
        {(data) => (
          <>
            <div className="columns even">
              <div className="main-column">
                {data.run.error && <Error_ run={data.run} />}
                <Steps run={data.run} />
                {data.run.data !== null && (
                  <Card title={t.control.data}>
                    <Plain text={prettyJson(data.run.data)} label={t.control.data} />
                  </Card>
                )}
              </div>
              <div className="side-column">
                <About run={data.run} />
              </div>
            </div>
            <History runs={data.history} />
          </>
        )}
      </Faces>
    </Page>
  );
}

function Error_({ run }: { run: Run }) {
  const { t } = useText();
  const error = run.error ?? "";
  return (
    <Card title={run.step === null ? t.field.error : t.control.stoppedAt(run.step)}>
      {error.includes("\n") ? (
        <Plain text={error} label={t.field.error} />
      ) : (
        <Note tone="bad">{error}</Note>
      )}
    </Card>
  );
}

function Steps({ run }: { run: Run }) {
  const { t } = useText();
  const now = useNow();
  if (run.steps.length === 0) {
    return (
      <Card title={t.control.steps}>
        <Empty title={t.control.noSteps}>{t.control.noStepsText}</Empty>
      </Card>
    );
  }
  const isRunning = run.status === "running";
  const rows = run.steps.map((step) => rowOf(step, isRunning, now));
  return (
    <Card title={t.control.steps} aside={isRunning && <Progress run={run} />}>
      <Timeline label={t.control.steps} rows={rows} />
    </Card>
  );
}

function rowOf(step: Run["steps"][number], isRunning: boolean, now: number): Row {
  const begin = toMilliseconds(step.began_at);
  const isDone = step.ended_at !== null;
  const end = isDone ? toMilliseconds(step.ended_at ?? "") : begin + 1_000 * (step.seconds ?? 0);
  return {
    key: step.step,
    name: <span className="name">{step.step}</span>,
    begin,
    end: !isDone && isRunning ? Math.max(begin, now) : end,
    tone: isDone ? "good" : isRunning ? "busy" : "bad",
    icon: isDone ? "check" : isRunning ? "play" : "close",
    more: kept(step),
  };
}

/** What is kept with a step: its data, and what its function returned. */
function kept(step: Run["steps"][number]): ReactNode {
  if (step.data === null && step.result === null) return undefined;
  return (
    <>
      {step.data !== null && <code className="clip">{step.data}</code>}
      {step.result !== null && <code className="clip">{step.result}</code>}
    </>
  );
}

function About({ run }: { run: Run }) {
  const { t, f } = useText();
  const facts = [
    [t.control.who, run.who],
    [t.control.tries, f.number(run.tries)],
    [t.control.step, run.step],
    [t.control.firstTry, <Ago key="first" at={run.first_time} />],
    [t.control.thisTry, <Ago key="this" at={run.start_time} />],
    [t.field.ended, <Ago key="end" at={run.end_time} />],
    [t.control.took, f.span(run.run_seconds)],
    [t.control.expires, <Ago key="expires" at={run.expire_time} />],
    [t.control.day, run.stat_date],
    [t.task.batch, run.batch === null ? null : <span className="id">{run.batch}</span>],
  ] as const;
  return (
    <Card title={t.control.thisRun}>
      <Facts facts={facts} />
    </Card>
  );
}

function History({ runs }: { runs: readonly Run[] }) {
  const { t, f } = useText();
  const columns: readonly Column<Run>[] = [
    { label: t.field.started, render: (run) => f.moment(run.start_time) },
    { label: t.field.status, render: (run) => <Status status={run.status} /> },
    {
      label: t.field.error,
      isWide: true,
      render: (run) => <span className="clip">{run.error?.trim().split("\n").at(-1)}</span>,
    },
    { label: t.control.step, render: (run) => run.step },
    { label: t.control.who, isExtra: true, render: (run) => run.who },
    { label: t.control.try, isNumber: true, render: (run) => f.number(run.tries) },
    { label: t.control.took, isNumber: true, render: (run) => f.span(run.run_seconds) },
  ];
  if (runs.length === 0) return null;
  return (
    <Card isFlush title={t.control.history}>
      <Table
        label={t.control.history}
        columns={columns}
        rows={runs}
        rowKey={(run) => `${run.batch} ${run.start_time}`}
      />
    </Card>
  );
}

function Actions({ run }: { run: Run }) {
  const { t } = useText();
  const { canAct } = useSession();
  const action = useAsk();
  if (!canAct) return null;

  const act = (verb: "release" | "reset") => {
    const words = t.control[verb];
    const body = { partition: run.partition, ...(run.batch === null ? {} : { batch: run.batch }) };
    return action.ask(
      { title: words.title(run.name), text: words.text, action: words.action, isDanger: true },
      () => post(`control/{name}/${verb}`, { params: { name: run.name }, body }),
      () => words.done(run.name),
    );
  };

  return (
    <>
      {run.status === "running" && (
        <Button
          look="danger"
          icon="cancel"
          isBusy={action.isBusy}
          onClick={() => void act("release")}
        >
          {t.control.release.action}
        </Button>
      )}
      {run.status === "failed" && (
        <Button look="danger" icon="retry" isBusy={action.isBusy} onClick={() => void act("reset")}>
          {t.control.reset.action}
        </Button>
      )}
    </>
  );
}

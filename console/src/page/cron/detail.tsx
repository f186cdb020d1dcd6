/** One cron: its schedule, its next turns, and its last results. */
import type { Answer } from "../../api/call";
import { useLive } from "../../data/hook";
import { Ago, Card, Facts, Figure, Figures, Missing, Note, Page } from "../../part/basic";
import { Empty, Faces } from "../../part/faces";
import { Said } from "../../part/said";
import { Badge, Status } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { pathOf } from "../../route/address";
import { Link } from "../../route/router";
import { useText } from "../../text";
import { CronState, When, type Cron } from ".";
import { CronActions } from "./act";

type Detail = Answer<"crons/{kind}">;
type Result = Detail["results"][number];

export function CronDetailPage({ kind }: { kind: string }) {
  const { t } = useText();
  const resource = useLive("crons/{kind}", {
    params: { kind },
    topics: ["tasks", "switches"],
    seconds: 10,
  });
  const cron = resource.data?.cron;
  return (
    <Page
      up={{ to: "crons", label: t.menu.crons }}
      title={kind}
      badge={cron && <CronState row={cron} />}
      lead={cron?.summary}
      actions={cron && <CronActions row={cron} isFull />}
    >
      <Faces resource={resource} lines={8}>
        {(data) => <Parts data={data} />}
      </Faces>
    </Page>
  );
}

function Parts({ data }: { data: Detail }) {
  const { t } = useText();
  const { cron } = data;
  const isStopped = cron.next.length === 0;
  return (
    <>
      <Missing shards={data.missing} />
      {cron.held && (
        <Note tone={cron.off ? "warn" : "calm"}>
          <Said said={cron.held} />
        </Note>
      )}
      {isStopped && <Note tone="warn">{t.cron.stoppedText}</Note>}
      <Sums cron={cron} />
      <div className="columns">
        <div className="main-column">
          <Results cron={cron} results={data.results} />
        </div>
        <div className="side-column">
          <Turns cron={cron} />
          <Schedule cron={cron} />
        </div>
      </div>
    </>
  );
}

function Sums({ cron }: { cron: Cron }) {
  const { t, f } = useText();
  const [first] = cron.next;
  const isDue = first !== undefined && Date.parse(first) <= Date.now();
  return (
    <Figures>
      <Figure
        label={t.cron.nextOne}
        value={first === undefined ? "–" : isDue ? t.cron.due : <Ago at={first} />}
        note={first === undefined ? undefined : f.moment(first)}
      />
      <Figure
        label={t.cron.last}
        value={cron.last ? <Ago at={cron.last.ended_at} /> : t.cron.notYet}
        note={cron.last ? t.status[cron.last.status as keyof typeof t.status] : undefined}
        tone={cron.last?.status === "failed" && "bad"}
      />
      <Figure label={t.cron.took} value={f.span(cron.last?.seconds)} />
    </Figures>
  );
}

function Turns({ cron }: { cron: Cron }) {
  const { t, f } = useText();
  if (cron.next.length === 0) return null;
  return (
    <Card title={t.cron.next}>
      <ol className="turns">
        {cron.next.map((turn) => (
          <li key={turn}>
            <time dateTime={turn}>{f.moment(turn)}</time>
            <small>
              <Ago at={turn} />
            </small>
          </li>
        ))}
      </ol>
    </Card>
  );
}

function Schedule({ cron }: { cron: Cron }) {
  const { t } = useText();
  const facts = [
    [t.cron.runs, <When key="when" cron={cron} />],
    [t.cron.expression, <code key="code">{cron.schedule.cron}</code>],
    ...(cron.changed
      ? ([
          [
            t.cron.changedBy,
            <span key="by">
              {cron.changed.who} · <Ago at={cron.changed.since} />
            </span>,
          ],
          [
            t.cron.declared,
            <span key="declared" title={cron.declared.cron}>
              <Said said={cron.declared.words} /> <small>{cron.declared.zone}</small>
            </span>,
          ],
        ] as const)
      : []),
    [t.cron.catchup, cron.catchup ? t.cron.catchupEach : t.cron.catchupOnce],
    [t.cron.row, cron.task !== null && <TaskLink key="row" task={cron.task} />],
  ] as const;
  return (
    <Card
      title={t.cron.schedule}
      aside={cron.changed && <Badge tone="warn">{t.cron.byHand}</Badge>}
    >
      <Facts facts={facts} />
    </Card>
  );
}

function Results({ cron, results }: { cron: Cron; results: readonly Result[] }) {
  const { t, f } = useText();
  const columns: readonly Column<Result>[] = [
    {
      label: t.field.ended,
      render: (row) => (
        <span className="stack">
          <span>{f.moment(row.at).replace(/:\d\d$/, "")}</span>
          <small>
            <Ago at={row.at} />
          </small>
        </span>
      ),
    },
    { label: t.cron.outcome, isWide: true, render: (row) => <Outcome row={row} /> },
    {
      label: t.cron.took,
      isNumber: true,
      render: (row) => f.milliseconds(row.milliseconds),
    },
    {
      label: t.field.task,
      isNumber: true,
      render: () => (cron.task === null ? null : <TaskLink task={cron.task} />),
    },
  ];
  return (
    <Card isFlush title={t.cron.results} aside={<small>{t.cron.resultsText}</small>}>
      {results.length === 0 ? (
        <Empty title={t.cron.noResults} />
      ) : (
        <Table label={t.cron.results} columns={columns} rows={results} rowKey={(row) => row.at} />
      )}
      {cron.last?.error && <Note tone="bad">{cron.last.error.split("\n")[0]}</Note>}
    </Card>
  );
}

function Outcome({ row }: { row: Result }) {
  const { t, f } = useText();
  const runs = row.succeeded + row.failed;
  return (
    <span className="inline">
      {row.failed > 0 && <Status status="failed" />}
      {row.failed === 0 && runs > 0 && <Status status="succeeded" />}
      {runs > 1 && <small>{t.cron.times(f.number(runs))}</small>}
      {row.retried > 0 && <small>{t.cron.retriedCount(f.number(row.retried))}</small>}
    </span>
  );
}

function TaskLink({ task }: { task: number }) {
  return (
    <Link className="id" to={pathOf("tasks", task)}>
      {task}
    </Link>
  );
}

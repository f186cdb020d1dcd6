/** One queue: its broker, its backlog, and its failed messages with retry and drop. */
import { useState } from "react";
import type { Answer, Row } from "../../api/call";
import { post } from "../../api/client";
import { useLive } from "../../data/hook";
import { prettyJson } from "../../format/format";
import { useAsk } from "../../part/ask";
import { Ago, BadCount, Button, Card, Facts, Note, Page, Plain } from "../../part/basic";
import { Empty, Faces } from "../../part/faces";
import { Table, type Column } from "../../part/table";
import { pathOf } from "../../route/address";
import { Link } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import { QueueState } from ".";

type Detail = Answer<"queues/{name}">;
type Failed = Row<"queues/{name}/failed">;

const MOST_SHOWN = 200;

export function QueueDetailPage({ name }: { name: string }) {
  const { t } = useText();
  const resource = useLive("queues/{name}", {
    params: { name },
    query: { ask: true },
    topics: ["tasks", "alerts"],
    seconds: 5,
  });
  return (
    <Page
      up={{ to: "queues", label: t.menu.queues }}
      title={resource.data?.name ?? name}
      lead={resource.data?.address}
      badge={resource.data && <QueueState row={resource.data} />}
    >
      <Faces resource={resource} lines={8}>
        {(data) => (
          <>
            {(data.error ?? data.problem) && <Note tone="bad">{data.error ?? data.problem}</Note>}
            {!data.is_tested && <Note tone="warn">{t.queue.untested}</Note>}
            <div className="columns even">
              <div className="main-column">
                <FailedMessages name={name} />
              </div>
              <div className="side-column">
                <About row={data} />
              </div>
            </div>
          </>
        )}
      </Faces>
    </Page>
  );
}

function About({ row }: { row: Detail }) {
  const { t, f } = useText();
  const linked = (kinds: readonly string[]) => (
    <span className="stack">
      {kinds.map((kind) => (
        <Link key={kind} className="name" to={pathOf("switches", kind)}>
          {kind}
        </Link>
      ))}
    </span>
  );
  return (
    <Card title={t.queue.about}>
      <Facts
        facts={[
          [t.queue.consumers, row.kinds.length ? linked(row.kinds) : null],
          ...(row.carries.length ? ([[t.switch.carries, linked(row.carries)]] as const) : []),
          [t.queue.depth, row.depth === null ? null : f.count(row.depth)],
          [t.queue.retrying, f.count(row.retrying)],
          [t.queue.failed, <BadCount key="failed" value={row.failed} />],
          [t.queue.waiting, f.count(row.waiting)],
          [t.queue.oldest, row.oldest_at && <Ago key="oldest" at={row.oldest_at} />],
          [t.queue.unsent, <BadCount key="unsent" value={row.unsent} />],
          [t.queue.lastAnswer, row.answered_at && <Ago key="answer" at={row.answered_at} />],
        ]}
      />
    </Card>
  );
}

function FailedMessages({ name }: { name: string }) {
  const { t } = useText();
  const { canAct } = useSession();
  const [chosen, setChosen] = useState<number | null>(null);
  const resource = useLive("queues/{name}/failed", {
    params: { name },
    topics: ["tasks", "alerts"],
    seconds: 5,
  });
  const columns: readonly Column<Failed>[] = [
    {
      label: t.queue.message,
      isWide: true,
      render: (row) => (
        <span className="stack">
          <button
            type="button"
            className="as-link clip"
            title={row.message_id}
            aria-expanded={chosen === row.id}
            onClick={() => setChosen(chosen === row.id ? null : row.id)}
          >
            {row.is_binary ? row.message_id : row.body.slice(0, MOST_SHOWN)}
          </button>
          <small className="text-bad clip" title={row.error ?? undefined}>
            {row.error}
          </small>
        </span>
      ),
    },
    { label: t.field.failed, isNumber: true, render: (row) => <Ago at={row.failed_at} /> },
    ...(canAct ? [{ label: "", render: (row: Failed) => <Actions name={name} row={row} /> }] : []),
  ];
  const shown = resource.data?.find((row) => row.id === chosen);
  return (
    <>
      <Card
        isFlush
        title={t.queue.failedMessages}
        aside={canAct && (resource.data?.length ?? 0) > 1 && <Actions name={name} />}
      >
        <Faces
          resource={resource}
          isEmpty={(rows) => rows.length === 0}
          empty={<Empty title={t.queue.noFailed}>{t.queue.noFailedText}</Empty>}
        >
          {(rows) => (
            <Table
              label={t.queue.failedMessages}
              columns={columns}
              rows={rows}
              rowKey={(row) => row.id}
            />
          )}
        </Faces>
      </Card>
      {shown && <Body row={shown} />}
    </>
  );
}

function Body({ row }: { row: Failed }) {
  const { t, f } = useText();
  const type = row.is_binary ? t.queue.base64(row.content_type) : row.content_type;
  return (
    <Card title={t.queue.body(row.message_id)}>
      <p className="plain-text text-bad">{row.error}</p>
      <Facts
        facts={[
          [t.field.attempt, f.number(row.tries)],
          [t.queue.type, type],
        ]}
      />
      <Plain
        label={t.queue.body(row.message_id)}
        text={row.is_binary ? row.body : prettyJson(row.body)}
      />
      {row.headers !== "{}" && (
        <>
          <h3>{t.queue.headers}</h3>
          <Plain label={t.queue.headers} text={prettyJson(row.headers)} />
        </>
      )}
    </Card>
  );
}

/** Try again or drop some failed messages, or all. */
function Actions({ name, row }: { name: string; row?: Failed }) {
  const { t, f } = useText();
  const action = useAsk();
  const params = { name };
  const body = row ? { ids: [row.id] } : {};
  const retry = () =>
    action.run(
      () => post("queues/{name}/retry", { params, body }),
      (done) => t.queue.retried(f.number(done.changed)),
    );
  const drop = () =>
    action.ask(
      {
        title: row ? t.queue.dropTitle : t.queue.dropAllTitle,
        text: t.queue.dropText,
        action: row ? t.queue.drop : t.queue.dropAll,
        isDanger: true,
      },
      () => post("queues/{name}/drop", { params, body }),
      (done) => t.queue.dropped(f.number(done.changed)),
    );
  return (
    <span className="row-actions">
      {!row?.is_cut && (
        <Button icon="retry" isBusy={action.isBusy} onClick={() => void retry()}>
          {row ? t.task.retry : t.queue.retryAll}
        </Button>
      )}
      <Button icon="cancel" look="danger" isBusy={action.isBusy} onClick={() => void drop()}>
        {row ? t.queue.drop : t.queue.dropAll}
      </Button>
    </span>
  );
}

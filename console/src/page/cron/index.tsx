/** Crons: when each runs next, and how its last turn went. */
import type { Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { Ago, Card, Missing, Page } from "../../part/basic";
import { Empty, Faces } from "../../part/faces";
import { Said } from "../../part/said";
import { Badge, Status } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { pathOf } from "../../route/address";
import { useText } from "../../text";
import { CronActions } from "./act";

export type Cron = Row<"crons">;

export function CronPage() {
  const { t, f } = useText();
  const resource = useLive("crons", { topics: ["tasks", "switches"], seconds: 15 });
  const columns: readonly Column<Cron>[] = [
    {
      label: t.field.kind,
      render: (row) => (
        <span className="stack kind-cell">
          <span className="name">{row.kind}</span>
          {row.summary && <small className="clip">{row.summary}</small>}
        </span>
      ),
    },
    {
      label: t.cron.runs,
      isWide: true,
      render: (row) => (
        <span className="stack">
          <When cron={row} />
          {row.changed && <small className="set-by-hand">{t.cron.byHand}</small>}
        </span>
      ),
    },
    { label: t.field.state, render: (row) => <CronState row={row} /> },
    { label: t.cron.nextOne, isNumber: true, render: (row) => <Upcoming row={row} /> },
    {
      label: t.cron.last,
      render: (row) =>
        row.last === null ? (
          <span className="faint">{t.cron.notYet}</span>
        ) : (
          <span className="stack">
            <Status status={row.last.status} />
            <small>
              <Ago at={row.last.ended_at} />
            </small>
          </span>
        ),
    },
    {
      label: t.cron.took,
      isNumber: true,
      isExtra: true,
      render: (row) => f.span(row.last?.seconds),
    },
    { label: "", render: (row) => <CronActions row={row} /> },
  ];
  return (
    <Page title={t.menu.crons} lead={t.cron.lead}>
      <Card isFlush>
        <Faces
          resource={resource}
          isEmpty={(page) => page.items.length === 0}
          empty={
            <Empty title={t.cron.none}>
              {t.cron.noneText} <code>@app.cron(&quot;0 3 * * *&quot;)</code>
            </Empty>
          }
        >
          {(page) => (
            <>
              <Missing shards={page.missing} />
              <Table
                label={t.menu.crons}
                columns={columns}
                rows={page.items}
                rowKey={(row) => row.kind}
                to={(row) => pathOf("crons", row.kind)}
              />
            </>
          )}
        </Faces>
      </Card>
    </Page>
  );
}

/** The schedule in words, with its zone if it has one. */
export function When({ cron }: { cron: Pick<Cron, "schedule"> }) {
  const { cron: expression, zone, words } = cron.schedule;
  const isZoned = !expression.startsWith("@every");
  return (
    <span title={expression}>
      <Said said={words} />
      {isZoned && <small> {zone}</small>}
    </span>
  );
}

function Upcoming({ row }: { row: Cron }) {
  const { t } = useText();
  const [first] = row.next;
  if (first === undefined) return <span className="faint">–</span>;
  return Date.parse(first) <= Date.now() ? <span>{t.cron.due}</span> : <Ago at={first} />;
}

export function CronState({ row }: { row: Cron }) {
  const { t } = useText();
  if (row.off) {
    return (
      <Badge tone="warn" icon="pause">
        {t.switch.isPaused}
      </Badge>
    );
  }
  if (row.status === "running") return <Status status="running" />;
  if (row.status === "cancelled" || row.status === "failed") {
    return (
      <Badge tone="idle" icon="cancel">
        {t.cron.stopped}
      </Badge>
    );
  }
  if (row.held_back) {
    return (
      <Badge tone="calm" icon="clock">
        {t.overview.held}
      </Badge>
    );
  }
  return (
    <Badge tone="good" icon="check">
      {t.switch.on}
    </Badge>
  );
}

/** Alerts: problems that need attention. */
import type { Row } from "../../api/call";
import { post } from "../../api/client";
import { useLive } from "../../data/hook";
import { Ago, Button, Card, Missing, Page } from "../../part/basic";
import { Filter } from "../../part/control";
import { Empty, Faces } from "../../part/faces";
import { Badge, type Tone } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { useAction } from "../../part/toast";
import { pathOf } from "../../route/address";
import { Link, useQuery } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import { ChannelCard } from "./channel";
import { DeliveryCard } from "./delivery";

type Alert = Row<"alerts">;

const TONES: Readonly<Record<Alert["severity"], Tone>> = {
  info: "calm",
  warning: "warn",
  critical: "bad",
};

export function AlertPage() {
  const { t } = useText();
  const [query, setQuery] = useQuery();
  const resource = useLive("alerts", { query: { limit: 200 }, topics: ["alerts"] });
  const kinds = [...new Set(resource.data?.items.map((alert) => alert.kind ?? "") ?? [])].filter(
    Boolean,
  );
  const kind = query.kind ?? "";
  const isWanted = (alert: Alert) =>
    (!kind || alert.kind === kind) && (!query.open || alert.is_open);
  const chosen = resource.data?.items.find((alert) => String(alert.id) === query.alert);
  return (
    <Page title={t.menu.alerts} lead={t.alert.lead}>
      <div className="filters">
        <div className="filter-row">
          <Filter name="open" label={t.alert.state} values={["1"]} words={{ 1: t.alert.open }} />
          {(kinds.length > 1 || kind) && (
            <Filter isSelect name="kind" label={t.field.kind} all={t.task.anyKind} values={kinds} />
          )}
        </div>
      </div>
      <Card isFlush>
        <Faces
          resource={resource}
          isEmpty={(page) => !page.items.some(isWanted)}
          empty={
            resource.data?.items.length ? (
              <Empty title={t.alert.allSeen}>{t.alert.allSeenText}</Empty>
            ) : (
              <Empty title={t.alert.none}>{t.alert.noneText}</Empty>
            )
          }
        >
          {(page) => (
            <>
              <Missing shards={page.missing} />
              <Alerts alerts={page.items.filter(isWanted)} />
            </>
          )}
        </Faces>
      </Card>
      {chosen && (
        <DeliveryCard key={chosen.id} alert={chosen} onClose={() => setQuery({ alert: "" })} />
      )}
      <ChannelCard />
    </Page>
  );
}

function Alerts({ alerts }: { alerts: readonly Alert[] }) {
  const { t, f } = useText();
  const columns: readonly Column<Alert>[] = [
    { label: t.field.when, render: (alert) => <Ago at={alert.raised_at} /> },
    {
      label: t.alert.what,
      render: (alert) => (
        <Badge
          tone={alert.is_open ? TONES[alert.severity] : "idle"}
          icon={alert.is_open ? "alert" : "check"}
        >
          {alert.what}
        </Badge>
      ),
    },
    { label: t.alert.times, isNumber: true, render: (alert) => f.count(alert.times) },
    {
      label: t.alert.text,
      isWide: true,
      render: (alert) => (
        <span className="stack">
          <span className="plain-text">{alert.text}</span>
          <Resolved alert={alert} />
          <SeenBy alert={alert} />
          <ShowDeliveries alert={alert} />
        </span>
      ),
    },
    {
      label: t.field.kind,
      render: (alert) =>
        alert.kind && (
          <Link className="name" to={pathOf("switches", alert.kind)}>
            {alert.kind}
          </Link>
        ),
    },
    {
      label: t.field.task,
      isNumber: true,
      render: (alert) =>
        alert.task_id === null ? (
          <span className="faint">–</span>
        ) : (
          <Link className="id" to={pathOf("tasks", alert.task_id)}>
            {alert.task_id}
          </Link>
        ),
    },
    { label: "", render: (alert) => <AlertActions alert={alert} /> },
  ];
  return (
    <Table
      label={t.menu.alerts}
      columns={columns}
      rows={alerts}
      rowKey={(alert) => alert.id}
      tone={(alert) => (alert.is_open ? undefined : "muted")}
    />
  );
}

/** When its cause was gone, or when it was last reported. */
function Resolved({ alert }: { alert: Alert }) {
  const { t } = useText();
  if (alert.resolved_at === null) {
    if (alert.times === 1) return null;
    return (
      <small>
        {t.alert.last} <Ago at={alert.last_at} />
      </small>
    );
  }
  return (
    <small>
      {t.alert.resolved} <Ago at={alert.resolved_at} />
      {alert.resolution && ` · ${alert.resolution}`}
    </small>
  );
}

/** Opens the list of channels that were told. */
function ShowDeliveries({ alert }: { alert: Alert }) {
  const { t } = useText();
  const [, setQuery] = useQuery();
  return (
    <small>
      <button
        type="button"
        className="as-link"
        onClick={() => setQuery({ alert: String(alert.id) }, false)}
      >
        {t.alert.deliveries}
      </button>
    </small>
  );
}

/** Who has seen it, and until when it is quiet. */
function SeenBy({ alert }: { alert: Alert }) {
  const { t, f } = useText();
  if (alert.seen_by === null) return null;
  return (
    <small>
      {t.alert.seenBy(alert.seen_by)} · <Ago at={alert.seen_at} />
      {alert.quiet_until && ` · ${t.alert.quietUntil(f.near(alert.quiet_until))}`}
    </small>
  );
}

/** Marks as seen, or quiet for an hour. One click is enough, because it can be undone. */
function AlertActions({ alert }: { alert: Alert }) {
  const { t } = useText();
  const { canAct } = useSession();
  const action = useAction();
  const isSeen = alert.seen_by !== null;
  if (!canAct || !(alert.is_open || isSeen)) return null;
  const trouble = alert.kind === null ? alert.what : t.alert.trouble(alert.what, alert.kind);
  const params = { number: alert.id };
  const recall = () =>
    action.run(
      () => post("alerts/{number}/recall", { params }),
      () => t.alert.isOpen(trouble),
    );
  const acknowledge = (body: { quiet?: string }, says: string) =>
    action.run(
      () => post("alerts/{number}/acknowledge", { params, body }),
      () => says,
    );
  if (isSeen) {
    return (
      <Button look="quiet" isBusy={action.isBusy} onClick={() => void recall()}>
        {t.alert.undo}
      </Button>
    );
  }
  return (
    <span className="row-actions">
      <Button
        title={t.alert.quietText(trouble)}
        isBusy={action.isBusy}
        onClick={() => void acknowledge({ quiet: "1h" }, t.alert.wasQuieted(trouble))}
      >
        {t.alert.quiet}
      </Button>
      <Button
        icon="check"
        title={t.alert.seenText(trouble)}
        isBusy={action.isBusy}
        onClick={() => void acknowledge({}, t.alert.wasSeen(trouble))}
      >
        {t.alert.seen}
      </Button>
    </span>
  );
}

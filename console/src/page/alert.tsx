/** Alerts: what a person should know. */
import type { AlertOut, Page_AlertOut_ } from "../api/model";
import { useLive } from "../data/hook";
import { Ago, Card, Missing, Page } from "../part/basic";
import { Select } from "../part/control";
import { Empty, Faces } from "../part/faces";
import { Badge } from "../part/status";
import { Table, type Column } from "../part/table";
import { pathOf } from "../route/address";
import { Link, useQuery } from "../route/router";
import { useText } from "../text";

export function AlertPage() {
  const { t } = useText();
  const [query, change] = useQuery();
  const resource = useLive<Page_AlertOut_>("alerts?limit=200", ["alerts"]);
  const kinds = [...new Set(resource.data?.items.map((alert) => alert.kind ?? "") ?? [])].filter(
    Boolean,
  );
  const kind = query.kind ?? "";
  return (
    <Page title={t.menu.alerts} lead={t.alert.lead}>
      {(kinds.length > 1 || kind) && (
        <div className="filters">
          <div className="filter-row">
            <Select
              label={t.field.kind}
              value={kind}
              choices={[
                { value: "", label: t.task.anyKind },
                ...kinds.map((name) => ({ value: name, label: name })),
              ]}
              onChoose={(value) => change({ kind: value })}
            />
          </div>
        </div>
      )}
      <Card isFlush>
        <Faces
          resource={resource}
          isEmpty={(page) => page.items.length === 0}
          empty={<Empty title={t.alert.none}>{t.alert.noneText}</Empty>}
        >
          {(page) => (
            <>
              <Missing shards={page.missing} />
              <Alerts alerts={page.items.filter((alert) => !kind || alert.kind === kind)} />
            </>
          )}
        </Faces>
      </Card>
    </Page>
  );
}

function Alerts({ alerts }: { alerts: readonly AlertOut[] }) {
  const { t } = useText();
  const columns: readonly Column<AlertOut>[] = [
    { name: "at", label: t.field.when, render: (alert) => <Ago at={alert.raised_at} /> },
    {
      name: "what",
      label: t.alert.what,
      render: (alert) => (
        <Badge tone="warn" icon="alert">
          {alert.what}
        </Badge>
      ),
    },
    {
      name: "text",
      label: t.alert.text,
      isWide: true,
      render: (alert) => <span className="plain-text">{alert.text}</span>,
    },
    {
      name: "kind",
      label: t.field.kind,
      render: (alert) =>
        alert.kind && (
          <Link className="name" to={pathOf("switches", alert.kind)}>
            {alert.kind}
          </Link>
        ),
    },
    {
      name: "task",
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
  ];
  return (
    <Table label={t.menu.alerts} columns={columns} rows={alerts} rowKey={(alert) => alert.id} />
  );
}

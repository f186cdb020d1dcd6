/** Rolling kinds: whether each promise holds. */
import type { Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { BadCount, Card, Page } from "../../part/basic";
import { Empty, Faces } from "../../part/faces";
import { Badge } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { pathOf } from "../../route/address";
import { useText } from "../../text";

export type Fresh = Row<"rolling">;

export function RollingPage() {
  const { t, f } = useText();
  const resource = useLive("rolling", { topics: ["tasks"], seconds: 5 });
  const columns: readonly Column<Fresh>[] = [
    { label: t.field.kind, render: (row) => <span className="name">{row.kind}</span> },
    {
      label: t.rolling.forecast,
      isWide: true,
      render: (row) => (
        <span className="why">
          <Promise_ fresh={row} />
          <span>{row.forecast}</span>
        </span>
      ),
    },
    { label: t.rolling.every, isNumber: true, render: (row) => row.every },
    { label: t.rolling.items, isNumber: true, render: (row) => f.number(row.total) },
    { label: t.field.due, isNumber: true, render: (row) => f.number(row.due) },
    { label: t.rolling.overdue, isNumber: true, render: (row) => <BadCount value={row.overdue} /> },
    {
      label: t.rolling.rates,
      isNumber: true,
      render: (row) => `${f.measure(row.actual_rate)} / ${f.measure(row.needed_rate)}`,
    },
  ];
  return (
    <Page title={t.menu.rolling} lead={t.rolling.lead}>
      <Card isFlush>
        <Faces
          resource={resource}
          isEmpty={(rows) => rows.length === 0}
          empty={
            <Empty title={t.rolling.none}>
              {t.rolling.noneText} <code>@app.rolling(every=&quot;10d&quot;)</code>
            </Empty>
          }
        >
          {(rows) => (
            <Table
              label={t.menu.rolling}
              columns={columns}
              rows={rows}
              rowKey={(row) => row.kind}
              to={(row) => pathOf("rolling", row.kind)}
            />
          )}
        </Faces>
      </Card>
    </Page>
  );
}

/** Whether the promise holds, in a word. */
export function Promise_({ fresh }: { fresh: Fresh }) {
  const { t } = useText();
  if (fresh.total === 0) return <Badge tone="idle">{t.rolling.empty}</Badge>;
  if (fresh.breaks_at !== null && Date.parse(fresh.breaks_at) <= Date.now()) {
    return (
      <Badge tone="bad" icon="warning">
        {t.rolling.late}
      </Badge>
    );
  }
  if (fresh.breaks_at !== null) {
    return (
      <Badge tone="warn" icon="warning">
        {t.rolling.breaks}
      </Badge>
    );
  }
  return (
    <Badge tone="good" icon="check">
      {t.rolling.holds}
    </Badge>
  );
}

/** Switches: what holds each kind back, and its settings. */
import type { Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { Ago, Card, Page } from "../../part/basic";
import { Find } from "../../part/control";
import { Empty, Faces } from "../../part/faces";
import { WindowStrip } from "../../part/picture/window";
import { Said } from "../../part/said";
import { Badge } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { pathOf } from "../../route/address";
import { useQuery } from "../../route/router";
import { useText } from "../../text";
import { SwitchActions } from "./act";
import { PauseCard } from "./pause";

export type Switch = Row<"switches">;

export function SwitchPage() {
  const { t } = useText();
  const [query] = useQuery();
  const resource = useLive("switches", { topics: ["switches"], seconds: 15 });
  const text = (query.q ?? "").toLowerCase();
  return (
    <Page title={t.menu.switches} lead={t.switch.lead}>
      <PauseCard />
      <div className="filters">
        <div className="filter-row">
          <Find name="q" label={t.switch.find} />
        </div>
      </div>
      <Card isFlush>
        <Faces
          resource={resource}
          isEmpty={(rows) => rows.length === 0}
          empty={<Empty title={t.overview.noKinds}>{t.overview.noKindsText}</Empty>}
        >
          {(rows) => (
            <Switches rows={rows.filter((row) => row.kind.toLowerCase().includes(text))} />
          )}
        </Faces>
      </Card>
    </Page>
  );
}

function Switches({ rows }: { rows: readonly Switch[] }) {
  const { t } = useText();
  if (rows.length === 0) return <Empty title={t.switch.noMatch} />;
  const columns: readonly Column<Switch>[] = [
    {
      label: t.field.kind,
      render: (row) => (
        <span className="stack kind-cell">
          <span className="name">{row.kind}</span>
          {row.group !== null && <small className="group">{t.switch.groupNamed(row.group)}</small>}
        </span>
      ),
    },
    {
      label: t.field.state,
      isWide: true,
      render: (row) => (
        <span className="stack">
          <SwitchState row={row} />
          {row.held && (
            <small>
              <Said said={row.held} />
            </small>
          )}
        </span>
      ),
    },
    {
      label: t.switch.rate,
      isNumber: true,
      render: (row) => <Held value={row.holds.rate} isSet={row.rate !== null} />,
    },
    {
      label: t.switch.window,
      render: (row) => (
        <span className="stack window-cell">
          <Held value={row.holds.window} isSet={row.window !== null} />
          {row.ahead && <WindowStrip ahead={row.ahead} />}
        </span>
      ),
    },
    {
      label: t.switch.concurrency,
      isNumber: true,
      render: (row) => (
        <Held value={row.holds.concurrency?.toString() ?? null} isSet={row.concurrency !== null} />
      ),
    },
    { label: "", render: (row) => <SwitchActions row={row} /> },
  ];
  return (
    <Table
      label={t.menu.switches}
      columns={columns}
      rows={rows}
      rowKey={(row) => row.kind}
      to={(row) => pathOf("switches", row.kind)}
    />
  );
}

function Held({ value, isSet }: { value: string | null; isSet: boolean }) {
  const { t } = useText();
  if (value === null) return <span className="faint">–</span>;
  return (
    <span
      className={isSet ? "set-by-hand" : undefined}
      title={isSet ? t.switch.setByHand : undefined}
    >
      {value}
    </span>
  );
}

export function SwitchState({ row }: { row: Switch }) {
  const { t } = useText();
  if (row.off || row.paused_by.length > 0) {
    return (
      <span className="inline">
        <Badge tone="warn" icon="pause">
          {t.switch.isPaused}
        </Badge>
        {row.off && (
          <small>
            {row.who} · <Ago at={row.since} />
          </small>
        )}
      </span>
    );
  }
  if (row.breaker !== "closed") {
    return (
      <Badge tone="bad" icon="bolt">
        {t.switch.breakerOpen}
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

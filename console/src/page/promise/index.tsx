/** Promises: what kinds must keep, how it stands, the forecast, and what would help. */
import type { Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { Card, Missing, Page } from "../../part/basic";
import { Empty, Faces } from "../../part/faces";
import { Badge, type Tone } from "../../part/status";
import { Table, type Column } from "../../part/table";
import type { IconName } from "../../part/icon";
import { pathOf } from "../../route/address";
import { useText } from "../../text";

export type Promised = Row<"promises">;

const TONES: Readonly<Record<Promised["state"], Tone>> = {
  kept: "good",
  "at risk": "warn",
  broken: "bad",
  unknown: "idle",
};
const ICONS: Readonly<Partial<Record<Promised["state"], IconName>>> = {
  kept: "check",
  "at risk": "warning",
  broken: "warning",
};
const PLACES: Readonly<Record<Promised["face"], string>> = {
  rolling: "rolling",
  sweep: "sweeps",
  task: "switches",
  cron: "switches",
  flow: "switches",
};

export function PromisePage() {
  const { t } = useText();
  const resource = useLive("promises", {
    topics: ["tasks", "sweeps", "switches", "flows"],
    seconds: 10,
  });
  return (
    <Page title={t.menu.promises} lead={t.promise.lead}>
      <Card isFlush>
        <Faces
          resource={resource}
          isEmpty={(page) => page.items.length === 0}
          empty={
            <Empty title={t.promise.none}>
              {t.promise.noneText} <code>@app.task(within=&quot;10m&quot;)</code>
            </Empty>
          }
        >
          {(page) => (
            <>
              <Missing shards={page.missing} />
              <Promises promises={page.items} />
            </>
          )}
        </Faces>
      </Card>
    </Page>
  );
}

function Promises({ promises }: { promises: readonly Promised[] }) {
  const { t, f } = useText();
  const rate = (value: number | null) => (value === null ? "–" : f.measure(value));
  const columns: readonly Column<Promised>[] = [
    { label: t.promise.state, render: (row) => <State state={row.state} /> },
    { label: t.field.kind, render: (row) => <span className="name">{row.kind}</span> },
    { label: t.promise.promise, isWide: true, render: (row) => row.promise },
    {
      label: t.promise.forecast,
      isWide: true,
      render: (row) => (
        <>
          <div>{row.forecast}</div>
          <div className="faint">{row.held_back ?? row.standing}</div>
        </>
      ),
    },
    { label: t.promise.cure, isWide: true, render: (row) => row.cure ?? "–" },
    {
      label: t.promise.rates,
      isNumber: true,
      render: (row) => `${rate(row.rate)} / ${rate(row.needed_rate)}`,
    },
  ];
  return (
    <Table
      label={t.menu.promises}
      columns={columns}
      rows={promises}
      rowKey={(row) => row.kind}
      to={(row) => pathOf(PLACES[row.face], row.kind)}
    />
  );
}

/** How a promise stands, in a word. */
function State({ state }: { state: Promised["state"] }) {
  const { t } = useText();
  const icon = ICONS[state];
  return (
    <Badge tone={TONES[state]} {...(icon ? { icon } : {})}>
      {t.promise.states[state]}
    </Badge>
  );
}

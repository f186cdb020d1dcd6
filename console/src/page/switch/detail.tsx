/** One kind: its last hour, what it declares, and what is in effect. */
import type { Answer } from "../../api/call";
import { useLive } from "../../data/hook";
import { Ago, Card, Facts, Figure, Figures, Note, Page } from "../../part/basic";
import { MinuteChart } from "../../part/picture/chart";
import { WindowDays } from "../../part/picture/window";
import { Faces } from "../../part/faces";
import { pathOf, queryOf } from "../../route/address";
import { Link } from "../../route/router";
import { Said } from "../../part/said";
import { useText } from "../../text";
import { SwitchState, type Switch } from ".";
import { SwitchActions } from "./act";

type Detail = Answer<"kinds/{kind}">;
type Kind = Detail["kind"];

export function SwitchDetailPage({ kind }: { kind: string }) {
  const { t } = useText();
  const resource = useLive("kinds/{kind}", {
    params: { kind },
    topics: ["tasks", "switches", "sweeps"],
    seconds: 10,
  });
  const row = useLive("switches/{kind}", { params: { kind }, topics: ["switches"], seconds: 10 });
  const declared = resource.data?.kind.declared;
  return (
    <Page
      up={{ to: "switches", label: t.menu.switches }}
      title={kind}
      badge={row.data && <SwitchState row={row.data} />}
      lead={declared?.summary}
      actions={row.data && <SwitchActions row={row.data} isFull />}
    >
      <Faces resource={resource} lines={10}>
        {(data) => <Full data={data} row={row.data} />}
      </Faces>
    </Page>
  );
}

function Full({ data, row }: { data: Detail; row: Switch | undefined }) {
  const { t } = useText();
  const { kind } = data;
  return (
    <>
      <Note tone={kind.is_held_back ? "warn" : "calm"}>
        {kind.says && <Said said={kind.says} />}
      </Note>
      {row?.holds.problem && <Note tone="bad">{row.holds.problem}</Note>}
      <Sums kind={kind} />
      <div className="columns even">
        <div className="main-column">
          <Card title={t.overview.lastHour}>
            <MinuteChart minutes={data.minutes} label={t.overview.lastHour} />
          </Card>
          {row?.ahead && (
            <Card title={t.switch.ahead}>
              <WindowDays ahead={row.ahead} />
            </Card>
          )}
          {kind.declared && <Declared declared={kind.declared} />}
        </div>
        <div className="side-column">{row && <Holds row={row} kind={kind} />}</div>
      </div>
    </>
  );
}

function Sums({ kind }: { kind: Kind }) {
  const { t, f } = useText();
  const list = (status: string) => `tasks${queryOf({ kind: kind.kind, status })}`;
  return (
    <Figures>
      <Figure
        label={t.field.waiting}
        value={f.count(kind.waiting)}
        note={t.overview.dueNow(f.count(kind.due))}
        to={list("waiting")}
      />
      <Figure label={t.field.running} value={f.count(kind.running)} to={list("running")} />
      <Figure
        label={t.field.failed}
        value={f.count(kind.failed)}
        tone={kind.failed > 0 && "bad"}
        to={list("failed")}
      />
      <Figure label={t.field.doneHour} value={f.number(kind.done_last_hour)} />
      <Figure label={t.field.average} value={f.milliseconds(kind.average_milliseconds)} />
    </Figures>
  );
}

function Holds({ row, kind }: { row: Switch; kind: Kind }) {
  const { t, f } = useText();
  const facts = [
    [t.switch.rate, row.holds.rate ?? t.switch.noLimit],
    [t.switch.window, row.holds.window ?? t.switch.always],
    [t.switch.concurrency, row.holds.concurrency?.toString() ?? t.switch.noLimit],
    ...(row.has_breaker
      ? ([
          [t.switch.breaker, row.breaker],
          [t.switch.errorsInARow, f.number(row.errors_in_a_row)],
          [t.switch.probe, <Ago key="probe" at={row.probe_at} />],
        ] as const)
      : []),
    ...(row.group === null ? [] : ([[t.switch.group, row.group]] as const)),
    ...(row.off ? ([[t.common.reason, row.reason]] as const) : []),
    ...(row.until === null
      ? []
      : ([[t.switch.resumes, <Ago key="until" at={row.until} />]] as const)),
    [t.switch.nextDue, <Ago key="next" at={kind.next_due_at} />],
  ] as const;
  return (
    <Card title={t.switch.holds}>
      <Facts facts={facts} />
      <p className="links">
        {kind.family === "rolling" && (
          <Link to={pathOf("rolling", kind.kind)}>{t.menu.rolling} →</Link>
        )}
        {kind.family === "sweep" && <Link to={pathOf("sweeps", kind.kind)}>{t.menu.sweeps} →</Link>}
        <Link to={`audit${queryOf({ about: kind.kind })}`}>{t.menu.audit} →</Link>
      </p>
    </Card>
  );
}

function Declared({ declared }: { declared: NonNullable<Kind["declared"]> }) {
  const { t, f } = useText();
  const facts = [
    [
      t.switch.arguments,
      declared.arguments.length === 0 ? null : (
        <code key="arguments">
          {declared.arguments
            .map((each) => `${each.name}: ${each.type}${each.required ? "" : "?"}`)
            .join(", ")}
        </code>
      ),
    ],
    [t.switch.retries, f.number(declared.retries)],
    [t.switch.timeout, declared.timeout],
    [t.switch.rate, declared.rate],
    [t.switch.window, declared.window],
    [t.switch.concurrency, declared.concurrency?.toString() ?? null],
    [t.switch.total, declared.total_concurrency?.toString() ?? null],
    [t.field.priority, f.number(declared.priority)],
    [t.switch.breaker, declared.breaker],
    [t.menu.downstreams, declared.downstreams.join(", ") || null],
    ...(declared.via === null ? [] : ([[t.switch.via, declared.via]] as const)),
    ...(declared.isolate === null ? [] : ([[t.switch.isolate, declared.isolate]] as const)),
  ] as const;
  return (
    <Card title={t.switch.declared}>
      <Facts facts={facts} />
    </Card>
  );
}

/** One sweep: its ranges as a strip, its rounds, and its failed items. */
import { useMemo, useState } from "react";
import type { Answer } from "../../api/call";
import { get, post } from "../../api/client";
import { useLive } from "../../data/hook";
import { Ago, Bar, Button, Card, Figure, Figures, Note, Page } from "../../part/basic";
import { Tabs } from "../../part/control";
import { Faces } from "../../part/faces";
import { letterOf } from "../../part/member";
import { keysOf, Strip } from "../../part/picture/strip";
import { useAsk } from "../../part/ask";
import { useAction, useTell } from "../../part/toast";
import { oneOf, pathOf } from "../../route/address";
import { Link, useQuery } from "../../route/router";
import { useSession } from "../../shell/session";
import { Said } from "../../part/said";
import { useText } from "../../text";
import { SweepState } from ".";
import { Runs } from "./run";
import { Failures, Ranges, Rounds } from "./table";

export type Sweep = Answer<"sweeps/{kind}">;

const TABS = ["ranges", "rounds", "runs", "failures"] as const;

export function SweepDetailPage({ kind }: { kind: string }) {
  const { t } = useText();
  const resource = useLive("sweeps/{kind}", {
    params: { kind },
    topics: ["sweeps", "switches"],
    seconds: 2,
  });
  const sweep = resource.data;
  return (
    <Page
      up={{ to: "sweeps", label: t.menu.sweeps }}
      title={kind}
      badge={sweep && <SweepState sweep={sweep} />}
      lead={sweep?.says && <Said said={sweep.says} />}
      actions={sweep && <Actions sweep={sweep} />}
    >
      <Faces resource={resource} lines={10}>
        {(data) => <Full sweep={data} />}
      </Faces>
    </Page>
  );
}

function Full({ sweep }: { sweep: Sweep }) {
  const { t, f } = useText();
  const [query, change] = useQuery();
  const tab = oneOf(TABS, query.tab) ?? "ranges";
  const owners = useMemo(() => ownersOf(sweep), [sweep]);
  const selected = query.range ? Number(query.range) : null;
  return (
    <>
      {sweep.error !== null && <Note tone="bad">{sweep.error}</Note>}
      {sweep.source !== null && (
        <Note tone="calm">
          {t.sweep.runSource}: {sweep.source}
          {sweep.key !== null && ` (${t.field.key}: ${sweep.key})`}
        </Note>
      )}
      <Sums sweep={sweep} />
      <Card
        title={t.sweep.ranges(f.number(sweep.ranges.length))}
        aside={<Owners owners={owners} />}
      >
        <Strip
          ranges={sweep.ranges}
          owners={owners}
          selected={selected}
          onSelect={(id) => change({ range: id === null ? null : String(id) })}
        />
        <Selected sweep={sweep} id={selected} owners={owners} />
        <Splitter sweep={sweep} />
      </Card>
      <Tabs
        label={t.sweep.one}
        value={tab}
        choices={[
          { value: "ranges", label: t.sweep.rangesTab },
          { value: "rounds", label: t.sweep.rounds },
          ...(sweep.run === null ? [{ value: "runs", label: t.sweep.runs } as const] : []),
          { value: "failures", label: t.sweep.failures },
        ]}
        onChoose={(next) => change({ tab: next === "ranges" ? null : next })}
      />
      {tab === "ranges" && <Ranges sweep={sweep} owners={owners} />}
      {tab === "rounds" && <Rounds kind={sweep.sweep} />}
      {tab === "runs" && <Runs kind={sweep.kind} />}
      {tab === "failures" && <Failures kind={sweep.sweep} />}
    </>
  );
}

function Sums({ sweep }: { sweep: Sweep }) {
  const { t, f } = useText();
  const stragglers = sweep.ranges.filter((range) => range.is_straggler).length;
  return (
    <Figures>
      <Figure
        label={t.sweep.roundNumber(f.number(sweep.round))}
        value={f.percent(sweep.percent)}
        note={<Bar percent={sweep.percent ?? 0} tone={sweep.is_running ? "busy" : "good"} />}
      />
      <Figure
        label={t.sweep.done}
        value={f.number(sweep.done)}
        note={sweep.total === null ? "–" : t.sweep.ofAbout(f.number(sweep.total))}
      />
      <Figure
        label={t.sweep.rate}
        value={t.common.perSecond(f.measure(sweep.rate))}
        note={stragglers > 0 ? t.sweep.stragglers(f.number(stragglers)) : t.sweep.noStragglers}
      />
      {sweep.is_running ? (
        <Figure
          label={t.sweep.left}
          value={f.span(sweep.eta)}
          note={
            <>
              {t.sweep.began} <Ago at={sweep.started_at} />
            </>
          }
        />
      ) : (
        <Figure
          label={t.sweep.nextRound}
          value={sweep.next_at === null ? "–" : <Ago at={sweep.next_at} />}
          note={
            <>
              {t.sweep.ended} <Ago at={sweep.ended_at} />
            </>
          }
        />
      )}
      <Figure
        label={t.sweep.failures}
        value={f.number(sweep.failed)}
        note={t.sweep.repeated(f.number(sweep.repeated))}
        tone={sweep.failed > 0 && "bad"}
      />
    </Figures>
  );
}

function Owners({ owners }: { owners: readonly number[] }) {
  const { t } = useText();
  if (owners.length === 0) return <span className="faint">{t.sweep.noOwner}</span>;
  return (
    <ul className="legend">
      {owners.map((owner, index) => (
        <li key={owner}>
          <i className={`key member-${index % 8}`} aria-hidden /> <b>{letterOf(index)}</b>{" "}
          <Link to="ring">{t.sweep.workerNumber(owner)}</Link>
        </li>
      ))}
    </ul>
  );
}

interface SelectedProps {
  sweep: Sweep;
  id: number | null;
  owners: readonly number[];
}

function Selected({ sweep, id, owners }: SelectedProps) {
  const { t, f } = useText();
  const range = sweep.ranges.find((each) => each.id === id);
  if (!range) return <p className="strip-told faint">{t.sweep.pick}</p>;
  const owner = range.owner === null ? "–" : letterOf(owners.indexOf(range.owner));
  return (
    <p className="strip-told">
      <b className="name">{keysOf(range)}</b>
      <span>
        {t.sweep.breakpoint}: <span className="name">{range.breakpoint ?? "–"}</span>
      </span>
      <span>{f.percent(range.percent)}</span>
      <span>{t.common.perSecond(f.measure(range.rate))}</span>
      <span>
        {t.field.worker}: {owner}
      </span>
    </p>
  );
}

const MOST_RANGES = 4_096;

function Splitter({ sweep }: { sweep: Sweep }) {
  const { t, f } = useText();
  const { canAct } = useSession();
  const action = useAction();
  const now = sweep.ranges.length;
  const [wanted, setWanted] = useState<number | null>(null);
  if (!canAct || now === 0) return null;
  const value = wanted ?? now;
  const most = Math.min(MOST_RANGES, Math.max(64, now * 4));
  const split = async () => {
    await action.run(
      () => post("sweeps/{kind}/split", { params: { kind: sweep.sweep }, body: { ranges: value } }),
      (done) => t.sweep.wasSplit(f.number(done.changed)),
    );
    setWanted(null);
  };
  return (
    <div className="splitter">
      <label>
        <span>{t.sweep.splitInto}</span>
        <input
          type="range"
          min={1}
          max={most}
          value={Math.min(value, most)}
          onChange={(event) => setWanted(Number(event.target.value))}
        />
      </label>
      <input
        type="number"
        min={1}
        max={MOST_RANGES}
        value={value}
        aria-label={t.sweep.splitInto}
        onChange={(event) =>
          setWanted(Math.min(MOST_RANGES, Math.max(1, Number(event.target.value))))
        }
      />
      <Button
        icon="cut"
        isBusy={action.isBusy}
        disabled={value === now || action.isBusy}
        onClick={() => void split()}
      >
        {t.sweep.split}
      </Button>
    </div>
  );
}

function Actions({ sweep }: { sweep: Sweep }) {
  const { t } = useText();
  const { canAct } = useSession();
  const action = useAction();
  const asking = useAsk();
  const tell = useTell();
  const start = () =>
    action.run(
      () => post("sweeps/{kind}/start", { params: { kind: sweep.sweep } }),
      () => t.sweep.started(sweep.sweep),
    );
  const cancel = () =>
    asking.ask(
      {
        title: t.sweep.cancelRun,
        text: t.sweep.cancelRunText,
        action: t.sweep.cancelRun,
        isDanger: true,
      },
      () => post("sweeps/{kind}/cancel", { params: { kind: sweep.sweep } }),
      () => t.sweep.runCancelled(sweep.sweep),
    );
  const audit = async () => {
    try {
      const found = await get("sweeps/{kind}/audit", { params: { kind: sweep.sweep } });
      tell(found.ok ? "good" : "bad", found.ok ? t.sweep.auditOk : found.problems.join("; "));
    } catch (problem) {
      tell("bad", problem instanceof Error ? problem.message : t.common.unreachable);
    }
  };
  return (
    <>
      <Button icon="check" onClick={() => void audit()}>
        {t.sweep.audit}
      </Button>
      {sweep.run === null && (
        <Link className="button plain" to="promises">
          {t.promise.see}
        </Link>
      )}
      {sweep.run !== null && (
        <Link className="button plain" to={pathOf("sweeps", sweep.kind)}>
          {sweep.kind}
        </Link>
      )}
      <Link className="button plain" to={pathOf("switches", sweep.kind)}>
        {t.switch.one}
      </Link>
      {canAct && sweep.is_running && sweep.run !== null && (
        <Button icon="cancel" look="danger" isBusy={asking.isBusy} onClick={() => void cancel()}>
          {t.sweep.cancelRun}
        </Button>
      )}
      {canAct && !sweep.is_running && sweep.run === null && (
        <Button icon="play" look="main" isBusy={action.isBusy} onClick={() => void start()}>
          {t.sweep.start}
        </Button>
      )}
    </>
  );
}

/** The workers that own a range, by number. */
function ownersOf(sweep: Sweep): readonly number[] {
  const found = new Set(sweep.ranges.map((range) => range.owner).filter((owner) => owner !== null));
  return [...found].sort((one, other) => one - other);
}

"""Reads how promises stand: what one database says of each kind that promises something.

Every read is bounded: none grows with the number of rows of a kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median_low

from windlass.clock import SECOND
from windlass.core.finish.store import MINUTE, Work
from windlass.core.limit.bound import bounded, downstream_setting, is_broken, limits_now
from windlass.core.limit.store import Switch, SwitchRows
from windlass.core.limit.switch import LimitRows, Setting, held_back, setting_of
from windlass.core.ring import store as ring_store
from windlass.core.ring.store import WorkerView
from windlass.core.shard.store import shard as shard_store
from windlass.core.task.downstream import Downstream
from windlass.core.task.kind import CRON_KEY, Kind
from windlass.core.task.store import task
from windlass.database.connection import Connection
from windlass.database.dialect.base import Dialect, Tier
from windlass.flow.store import page as flows
from windlass.rolling.operate import freshness
from windlass.rolling.operate.freshness import FreshnessFacts
from windlass.rolling.store.freshness import SAMPLED
from windlass.sweep import model as sweep_model
from windlass.sweep.model import SweepRow, is_sweep
from windlass.sweep.store import range as ranges
from windlass.sweep.store import sweep
from windlass.value.cron import read_turn
from windlass.watch.promise import store
from windlass.watch.promise.model import judge
from windlass.watch.promise.model.judge import BacklogFacts, RoundFacts, backlogs_together
from windlass.watch.promise.model.pace import KindPace
from windlass.watch.promise.model.promise import Promise, PromiseFace

RECENT_MINUTES = 10
# Rows that wait for this long show what speed is possible; before, the speed follows the demand.
PRESSED_AFTER = 2 * MINUTE
RUNS_READ = 100
USUAL_OF = 20
# Watchers look often: they read fewer items of a rolling kind than a person who asks.
FEW_ITEMS = 1_000
# A sweep without a promise has a projected end, too.
NO_LIMIT = 100 * 365 * 24 * 60 * MINUTE


@dataclass(frozen=True)
class RollingFacts:
    """What is known of a rolling kind."""

    found: FreshnessFacts
    pace: KindPace


Facts = BacklogFacts | RoundFacts | RollingFacts


def promising(kinds: Mapping[str, Kind]) -> list[Kind]:
    """The kinds that promise something, by name."""
    return [
        kind
        for _, kind in sorted(kinds.items())
        if kind.period is not None or kind.within is not None
    ]


def promises_here(
    connection: Connection, dialect: Dialect, kinds: Mapping[str, Kind], *, now: int
) -> list[Promise]:
    """How the promises stand in one database, without sweeps that are in another shard."""
    reader = PromiseReader(connection, dialect, kinds, now, items_read=FEW_ITEMS)
    found = ((kind, reader.facts(kind)) for kind in promising(kinds))
    return [
        replace(judged(kind, [facts], now=now), held_back=reader.held_back(kind))
        for kind, facts in found
        if facts is not None
    ]


def judged(kind: Kind, found: Sequence[Facts], *, now: int) -> Promise:
    """The promise of a kind, by what one or several databases say."""
    backlogs = [each for each in found if isinstance(each, BacklogFacts)]
    rounds = [each for each in found if isinstance(each, RoundFacts)]
    rollings = [each for each in found if isinstance(each, RollingFacts)]
    within = kind.within
    if rollings:
        assert kind.period is not None
        facts = freshness.together([each.found for each in rollings])
        settings = [each.pace.setting for each in rollings]
        setting = replace(
            facts.setting,
            rate=_sum([each.rate for each in settings]),
            most_rate=_sum([each.most_rate for each in settings]),
        )
        facts = replace(facts, setting=setting)
        fresh = freshness.judged(facts, kind.period, now=now)
        pace = replace(
            rolling_pace(facts), expected=_sum([each.pace.expected for each in rollings])
        )
        return judge.judge_rolling(kind.name, kind.period, fresh, pace)
    if rounds:
        # A sweep is in one shard; in others it may have ended before it moved.
        chosen = max(rounds, key=lambda each: (each.is_running, each.started_at or 0))
        return judge.judge_round(kind.name, within or NO_LIMIT, chosen, now=now)
    assert within is not None
    together = backlogs_together(backlogs)
    if kind.face == "flow":
        return judge.judge_flow(kind.name, within, together, now=now)
    face: PromiseFace = "task" if kind.schedule is None else "cron"
    return judge.judge_backlog(kind.name, face, within, together, now=now)


def replanned(facts: Facts, pace: KindPace) -> Facts:
    """What would be known of a kind at another pace."""
    if not isinstance(facts, RollingFacts):
        return replace(facts, pace=pace)
    found = replace(facts.found, setting=pace.setting, workers=pace.workers)
    reached, before = pace.without_rate, facts.pace.measured
    if found.due and reached is not None and before:
        found = replace(found, per_second=reached, busy=found.busy / before * reached)
    return RollingFacts(found, pace)


def rolling_pace(found: FreshnessFacts) -> KindPace:
    """The pace of a rolling kind: while items are due, its speed is all that is possible."""
    return KindPace(
        measured=found.per_second,
        busy=found.busy,
        is_pressed=found.due > 0,
        workers=found.workers,
        setting=found.setting,
        is_broken=found.is_broken,
    )


@dataclass
class PromiseReader:
    """Reads what is known of kinds in one database, in one transaction."""

    connection: Connection
    dialect: Dialect
    kinds: Mapping[str, Kind]
    now: int
    items_read: int = SAMPLED

    def facts(self, kind: Kind) -> Facts | None:
        """What is known of a kind that promises something; None if it is in another shard."""
        if kind.period is not None:
            return self._rolling(kind)
        if is_sweep(kind):
            return self._round(kind)
        if kind.face == "flow":
            return self._flow(kind)
        return self._cron(kind) if kind.schedule is not None else self._task(kind)

    def held_back(self, kind: Kind) -> str | None:
        """What holds a kind back, in words."""
        return held_back(kind, self._switch(kind), now=self.now, others=self._switches)

    def pace(
        self, kind: Kind, *, pressed_since: int | None = None, speed: float | None = None
    ) -> KindPace:
        """How fast a kind runs; `speed` replaces what the statistics say."""
        since = self.now - RECENT_MINUTES * MINUTE
        is_pressed = pressed_since is not None and self.now - pressed_since >= PRESSED_AFTER
        if is_pressed and pressed_since is not None:
            since = max(since, pressed_since)
        work = self._work.get(kind.name, {})
        first = since if is_pressed else max(since, min(work, default=0) * MINUTE)
        measured, busy = _speed(work, since=first, now=self.now)
        if speed is not None:
            busy = busy / measured * speed if measured else 0.0
            measured, is_pressed = speed, True
        return KindPace(
            measured=measured,
            busy=busy,
            is_pressed=is_pressed,
            workers=sum(kind.name in each.kinds for each in self._alive),
            setting=self._setting(kind),
            is_broken=is_broken(kind, self._switches),
        )

    def _rolling(self, kind: Kind) -> RollingFacts:
        found = freshness.facts_of(
            self.connection, self.dialect, kind, now=self.now, most=self.items_read
        )
        found = replace(found, setting=self._setting(kind))
        return RollingFacts(found, rolling_pace(found))

    def _round(self, kind: Kind) -> RoundFacts | None:
        row = sweep.get(self.connection, kind.name)
        if row is None:
            return None if self._shards > 1 else RoundFacts(self.pace(kind), why="not begun")
        found = ranges.listing(self.connection, kind.name)
        over = next(iter(sweep.rounds(self.connection, kind.name, limit=1)), None)
        pace = self.pace(kind, speed=self._round_speed(row, found) if row.is_running else None)
        open_ranges = sum(each.is_open for each in found)
        estimate = sweep_model.estimate(found, total=row.rows, rate=1.0)
        return RoundFacts(
            pace=replace(pace, most_workers=max(1, open_ranges) if row.is_running else None),
            started_at=row.started_at,
            is_running=row.is_running,
            percent=estimate.percent if row.is_running else None,
            left=estimate.eta_seconds,
            last=None if over is None else round(over.duration.total_seconds() * SECOND),
            why=sweep_model.sweep_why(row, found, self.now),
        )

    def _round_speed(self, row: SweepRow, found: Sequence[sweep_model.Range]) -> float | None:
        """The speed of the ranges, or else of the whole round so far; None if nothing is done."""
        speed = sum(each.speed(self.now) for each in found)
        done = sum(each.done + each.failed for each in found)
        if speed or not done or row.started_at is None or self._work.get(row.name):
            return speed or None
        return done / max(1.0, (self.now - row.started_at) / SECOND)

    def _flow(self, kind: Kind) -> BacklogFacts:
        running = flows.first_running(self.connection, kind.name, limit=RUNS_READ)
        ended = flows.last_succeeded(self.connection, kind.name, limit=USUAL_OF)
        took = [each.finished_at - each.begins_at for each in ended if each.finished_at]
        begun = [each for each in running if each.begins_at <= self.now]
        oldest = min(begun, key=lambda each: each.begins_at, default=None)
        # The nodes are of other kinds: what holds these back is told with them.
        pace = KindPace(0.0, 0.0, False, 1, setting_of(kind, Switch(kind.name), now=self.now))
        return BacklogFacts(
            pace=pace,
            due=len(begun),
            since=None if oldest is None else oldest.begins_at,
            usual=median_low(took) if took else None,
            number=None if oldest is None else oldest.id,
        )

    def _cron(self, kind: Kind) -> BacklogFacts:
        row = task.find(self.connection, kind.name, CRON_KEY)
        if row is None or row.status.is_final:
            return BacklogFacts(self.pace(kind))
        turn = read_turn(row.payload) or row.due_at
        is_due = turn is not None and turn <= self.now
        return BacklogFacts(
            pace=self.pace(kind),
            due=int(is_due),
            since=turn if is_due else None,
            next_at=None if is_due else turn,
            number=row.id,
        )

    def _task(self, kind: Kind) -> BacklogFacts:
        tiers = [tier for tier in self._tiers if tier.kind == kind.name]
        due_tiers = [tier for tier in tiers if tier.due_at <= self.now]
        since = min((tier.due_at for tier in due_tiers), default=None)
        begun = [
            found
            for found in (
                store.running_since(self.connection, kind.name),
                store.retried_since(self.connection, kind.name),
                store.overloaded_since(self.connection, kind.name),
            )
            if found is not None
        ]
        oldest, number = min([*begun, *([] if since is None else [(since, 0)])], default=(None, 0))
        later = [tier.due_at for tier in tiers if tier.due_at > self.now]
        return BacklogFacts(
            pace=self.pace(kind, pressed_since=since),
            due=sum(self._due(tier) for tier in due_tiers),
            since=oldest,
            next_at=min(later, default=None),
            number=number or None,
        )

    def _due(self, tier: Tier) -> int:
        counted = store.due_count(self.connection, tier, until=self.now)
        if counted <= store.COUNTED:
            return counted
        estimate = self.dialect.estimate_due(self.connection, tier, until=self.now)
        return max(counted, estimate)

    def _switch(self, kind: Kind) -> Switch:
        return self._switches.of(kind.name, kind.group)

    def _setting(self, kind: Kind) -> Setting:
        """What bounds a kind in this shard: each shard has an equal part of the rates."""
        left = {each.name: self._left(kind, each) for each in kind.downstreams}
        setting = bounded(kind, self._limits, now=self.now, left=left)
        return replace(
            setting, rate=self._part(setting.rate), most_rate=self._part(setting.most_rate)
        )

    def _part(self, rate: float | None) -> float | None:
        return None if rate is None else rate / self._shards

    def _left(self, kind: Kind, downstream: Downstream) -> float | None:
        """The rate of a downstream without what other kinds take; an equal part at least."""
        rate = downstream_setting(downstream, self._limits, now=self.now).rate
        if rate is None:
            return None
        since, taken, kinds = self.now - RECENT_MINUTES * MINUTE, 0.0, 1
        for name, other in self.kinds.items():
            if name != kind.name and downstream in other.downstreams:
                kinds += 1
                taken += _speed(self._work.get(name, {}), since=since, now=self.now)[0]
        # Other shards are assumed to be like this one.
        return max(rate - taken * self._shards, rate / kinds)

    @cached_property
    def _shards(self) -> int:
        roster = shard_store.get(self.connection).roster
        return 1 if roster is None else max(1, len(roster.layout))

    @cached_property
    def _work(self) -> Mapping[str, Mapping[int, Work]]:
        since = self.now // MINUTE - RECENT_MINUTES
        return store.recent_work(self.connection, since=since)

    @cached_property
    def _alive(self) -> list[WorkerView]:
        found = ring_store.workers(self.connection)
        return [each for each in found if each.lease_until >= self.now]

    @cached_property
    def _limits(self) -> LimitRows:
        return limits_now(self.connection)

    @property
    def _switches(self) -> SwitchRows:
        return self._limits.switches

    @cached_property
    def _tiers(self) -> list[Tier]:
        names = [
            name for name, kind in self.kinds.items() if kind.within is not None and kind.has_rows
        ]
        return self.dialect.tiers(self.connection, names) if names else []


def _speed(work: Mapping[int, Work], *, since: int, now: int) -> tuple[float, float]:
    """Runs, and milliseconds in handlers, a second in the whole minutes since a moment."""
    first = -(-since // MINUTE)
    chosen = [each for minute, each in work.items() if minute >= first]
    seconds = max(60.0, (now - first * MINUTE) / SECOND)
    runs = sum(each.done + each.failed for each in chosen)
    return runs / seconds, sum(each.milliseconds for each in chosen) / seconds


def _sum(rates: Iterable[float | None]) -> float | None:
    known = [each for each in rates if each is not None]
    return sum(known) if known else None

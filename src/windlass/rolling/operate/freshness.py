"""Freshness: how old the last visits are, and whether the promise of the period will hold.

Every read is bounded: at most 10,000 items are read in the order in which they are due, the number
of all items comes from the tally, and the speed from the statistics of the last minutes. A
histogram counts few items. For many, the index of due times shows how close together they are in
each part, because an item is due a period after its last visit; only a few places of it are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from windlass.clock import SECOND, Clock, to_datetime
from windlass.core.finish import store as finish_store
from windlass.core.finish.store import MINUTE
from windlass.core.limit.bound import bounded, is_broken, limits_now
from windlass.core.limit.switch import Setting, least
from windlass.core.ring import store as ring_store
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind, Registry
from windlass.database.connection import Connection
from windlass.database.dialect.base import Dialect, Tier
from windlass.rolling.model import Bar, Freshness, Histogram, RollingView
from windlass.rolling.store import freshness as store
from windlass.rolling.store.freshness import SAMPLED, Sample
from windlass.value.duration import format_duration
from windlass.value.period import Period

RECENT_MINUTES = 10
DEFAULT_CONCURRENCY = 100
DAY = 86_400 * SECOND
# Bars up to the promise, and after it; the last one has no end.
BARS = 20
LATE_BARS = 5
# The ages of more items than these are estimated.
MANY = 2 * SAMPLED


@dataclass(frozen=True)
class FreshnessFacts:
    """What the databases say about the items of a kind.

    In the last minutes there were `per_second` visits, which ran for `busy` milliseconds a second.
    """

    total: int
    sample: Sample
    due: int
    per_second: float
    busy: float
    setting: Setting
    workers: int
    is_broken: bool


@dataclass(frozen=True)
class Forecast:
    """The forecast in words; when the promise breaks, or how much faster than needed it can go."""

    text: str
    breaks_at: int | None = None
    head_room: float | None = None


@dataclass(frozen=True)
class Ages:
    """How many items of one shard are in each bar."""

    counts: list[int]
    never_visited: int
    is_estimate: bool


def views(fleet: Fleet, clock: Clock, registry: Registry) -> list[RollingView]:
    """All rolling kinds, by name."""
    kinds = sorted(registry.kinds.items())
    return [view(fleet, clock, kind) for _, kind in kinds if kind.period is not None]


def view(fleet: Fleet, clock: Clock, kind: Kind) -> RollingView:
    """One rolling kind."""
    every = _period(kind).every
    return RollingView(
        **vars(freshness(fleet, clock, kind)),
        kind=kind.name,
        every=format_duration(every),
        every_seconds=every / SECOND,
    )


def freshness(fleet: Fleet, clock: Clock, kind: Kind) -> Freshness:
    """How fresh the items of a rolling kind are, by the shards that answer."""

    def ask(shard: Shard) -> FreshnessFacts:
        dialect, now = shard.database.dialect, shard.clock.fresh()
        return shard.database.read(lambda connection: facts_of(connection, dialect, kind, now=now))

    answers = fleet.ask(ask)
    found = judged(together(answers.values), _period(kind), now=clock.now())
    return replace(found, missing=answers.missing)


def judged(facts: FreshnessFacts, period: Period, *, now: int) -> Freshness:
    """How fresh the items are by what the databases say."""
    sample = facts.sample
    # Where only a part of the due items was read, the others are assumed to be like them.
    never, late = (_scaled(count, facts) for count in (sample.never_visited, sample.late))
    needed = facts.total / (period.every / SECOND)
    expected = forecast(facts, period, needed=needed, late=late, now=now)
    oldest = 0 if sample.seen_first is None else max(0, now - sample.seen_first)
    return Freshness(
        total=facts.total,
        never_visited=never,
        due=facts.due,
        overdue=late,
        oldest_age=timedelta(microseconds=oldest),
        needed_rate=needed,
        actual_rate=facts.per_second,
        forecast=expected.text,
        breaks_at=None if expected.breaks_at is None else to_datetime(expected.breaks_at),
        head_room=expected.head_room,
    )


def _period(kind: Kind) -> Period:
    assert kind.period is not None
    return kind.period


def together(found: Sequence[FreshnessFacts]) -> FreshnessFacts:
    """What several databases say."""
    return FreshnessFacts(
        total=sum(facts.total for facts in found),
        sample=sum((facts.sample for facts in found), Sample()),
        due=sum(facts.due for facts in found),
        per_second=sum(facts.per_second for facts in found),
        busy=sum(facts.busy for facts in found),
        setting=found[0].setting,
        # A process that serves several shards is a worker in each of them.
        workers=max(facts.workers for facts in found),
        is_broken=any(facts.is_broken for facts in found),
    )


def facts_of(
    connection: Connection, dialect: Dialect, kind: Kind, *, now: int, most: int = SAMPLED
) -> FreshnessFacts:
    """What one database says about the items of a kind, by reads of `most` rows at most."""
    period, until = _period(kind), kind.due_until(now)
    tiers = dialect.tiers(connection, [kind.name])
    sample = store.sample(connection, tiers, until=until, late_before=now - period.every, most=most)
    total = store.total(connection, kind.name, most=most)
    due = sample.due
    if due == sample.looked_at and total > most:
        # Where most items are due, as after an import, the others can be counted.
        rest = store.not_due(connection, tiers, kind.name, until=until, most=most)
        if rest is None:
            estimates = (dialect.estimate_due(connection, tier, until=until) for tier in tiers)
            rest = total - sum(estimates)
        due = min(max(total - rest, due), total)
    serving = [
        view
        for view in ring_store.workers(connection)
        if kind.name in view.kinds and view.lease_until >= now
    ]
    rows = limits_now(connection)
    began_at = min((view.joined_at for view in serving), default=0)
    per_second, busy = _speed(connection, kind.name, began_at, now)
    return FreshnessFacts(
        total=total,
        sample=sample,
        due=due,
        per_second=per_second,
        busy=busy,
        setting=bounded(kind, rows, now=now),
        is_broken=is_broken(kind, rows.switches),
        workers=len(serving),
    )


def _speed(connection: Connection, kind: str, began_at: int, now: int) -> tuple[float, float]:
    found = finish_store.minutes_of(connection, kind, since=now // MINUTE - RECENT_MINUTES)
    if not found:
        return 0.0, 0.0
    # A worker that has just joined did not work for the whole of its first minute.
    since = max(min(found) * MINUTE, began_at)
    seconds = max(10.0 if began_at else 60.0, (now - since) / SECOND)
    visits = sum(work.done + work.failed for work in found.values())
    return visits / seconds, sum(work.milliseconds for work in found.values()) / seconds


def _scaled(count: int, facts: FreshnessFacts) -> int:
    if facts.due <= facts.sample.due or not facts.sample.looked_at:
        return count
    return min(facts.total, round(count / facts.sample.looked_at * facts.due))


def forecast(
    facts: FreshnessFacts, period: Period, *, needed: float, late: int, now: int
) -> Forecast:
    """Whether every item will be visited in time. `needed` is the speed for that."""
    promise = f"the {_named(period.every)} promise"
    if not facts.total:
        return Forecast("there is nothing to visit")
    speed = _capacity(facts)
    backlog = facts.due / speed if speed else None
    if late and _is_broken(facts.sample, period, now):
        return Forecast(f"{promise} is broken: {_overdue(late)}; {_caught_up(backlog)}", now)
    breaks_at = _breaks_at(facts, period, needed=needed, speed=speed, now=now)
    if breaks_at is not None:
        moment = to_datetime(breaks_at).strftime("%A %Y-%m-%d %H:%M UTC")
        why = "at this rate" if speed else _why_nothing_runs(facts)
        return Forecast(f"{promise} breaks on {moment} {why}", breaks_at)
    head_room = None if speed is None else speed / needed
    if head_room is None:
        return Forecast(f"{promise} holds so far; the speed is not known yet")
    times = f"{head_room:.1f}" if head_room < 10 else f"{min(head_room, 1_000):,.0f}"
    more = "more than " if head_room > 1_000 else ""
    return Forecast(f"{promise} holds with {more}{times} times head-room", None, head_room)


def _capacity(facts: FreshnessFacts) -> float | None:
    """How many items can be visited a second, on average over a day; None if that is unknown.

    While items wait, that is the actual speed. Otherwise the speed follows the demand, and the
    possible speed follows from how long visits take and how many may run at once.
    """
    setting = facts.setting
    if setting.off or facts.is_broken or not facts.workers:
        return 0.0
    known = [] if setting.rate_bound is None else [setting.rate_bound]
    if facts.due and facts.per_second:
        known.append(facts.per_second)
    elif facts.per_second:
        at_once = min(setting.concurrency or DEFAULT_CONCURRENCY, DEFAULT_CONCURRENCY)
        milliseconds = max(1.0, facts.busy / facts.per_second)
        slots = least(facts.workers * at_once, setting.most_at_once)
        known.append(slots * 1_000 / milliseconds)
    return min(known) * setting.share if known else None


def _breaks_at(
    facts: FreshnessFacts, period: Period, *, needed: float, speed: float | None, now: int
) -> int | None:
    """When the first item will have waited longer than the period; None if never or unknown."""
    seen = facts.sample.seen_first
    first_late = now + period.every if seen is None else max(now, seen + period.every)
    if speed is None:
        return None
    if speed == 0.0:
        return first_late
    cleared_at = now + round(facts.due / speed * SECOND)
    if cleared_at > first_late:
        return first_late
    if speed >= needed:
        return None
    # Items fall due faster than they are visited, and the queue grows.
    tolerated = period.tolerance / SECOND * speed - facts.due
    return now + round(max(0.0, tolerated) / (needed - speed) * SECOND)


def _is_broken(sample: Sample, period: Period, now: int) -> bool:
    """Whether the oldest item is later than a short delay in the queue explains."""
    seen = sample.seen_first
    return seen is not None and now - seen - period.every > period.tolerance


def _named(every: int) -> str:
    days, rest = divmod(every, DAY)
    return f"{days}-day" if not rest else format_duration(every)


def _overdue(late: int) -> str:
    return "1 item is overdue" if late == 1 else f"{late:,} items are overdue"


def _caught_up(backlog: float | None) -> str:
    if backlog is None:
        return "the speed is not known, or no worker visits them"
    return f"at this rate what is due is visited in {format_duration(backlog * SECOND)}"


def _why_nothing_runs(facts: FreshnessFacts) -> str:
    if facts.setting.off:
        return "because the kind is paused"
    return "unless its breaker closes" if facts.is_broken else "because no worker runs it"


def histogram(fleet: Fleet, kind: Kind) -> Histogram:
    """The ages of the items of a rolling kind, in all shards that answer."""
    every = _period(kind).every
    found = fleet.fan_out(lambda shard: _ages(shard, kind, every)).values
    counts = [sum(column) for column in zip(*(ages.counts for ages in found), strict=True)]
    width = every / BARS / SECOND
    last = BARS + LATE_BARS - 1
    return Histogram(
        bars=[
            Bar(index * width, None if index == last else (index + 1) * width, count, index >= BARS)
            for index, count in enumerate(counts or [0] * (last + 1))
        ],
        never_visited=sum(ages.never_visited for ages in found),
        promise_seconds=every / SECOND,
        is_estimate=any(ages.is_estimate for ages in found),
    )


def _ages(shard: Shard, kind: Kind, every: int) -> Ages:
    now = shard.clock.now()

    def read(connection: Connection) -> Ages:
        total = store.tallied(connection, kind.name)
        # The tally may be a little off: reading the items shows whether they are few.
        moments = None if total > MANY else store.last_visits(connection, kind.name, most=MANY)
        if moments is not None:
            return _counted(moments, every, now)
        tiers = shard.database.dialect.tiers(connection, [kind.name])
        return _estimated(connection, tiers, every, total, now)

    return shard.database.read(read)


def _counted(moments: Sequence[int | None], every: int, now: int) -> Ages:
    counts = [0] * (BARS + LATE_BARS)
    for moment in moments:
        if moment is not None:
            index = max(0, now - moment) * BARS // every
            counts[min(index, len(counts) - 1)] += 1
    return Ages(counts, sum(moment is None for moment in moments), is_estimate=False)


def _estimated(
    connection: Connection, tiers: Sequence[Tier], every: int, total: int, now: int
) -> Ages:
    """By due times: an item due in a tenth of the period was visited nine tenths of it ago."""
    bars = BARS + LATE_BARS
    borders = [now + every - index * every // BARS for index in range(bars)]
    items = [0.0] * bars
    for tier in tiers:
        # Items older than all borders are in the last bar.
        moments = [min(tier.due_at, borders[-1]) - 1, *reversed(borders)]
        found = store.crowds(connection, tier, moments)
        items = [known + more for known, more in zip(items, reversed(found), strict=True)]
    # Scaled, so that the bars together have all items.
    times = total / max(1.0, sum(items))
    return Ages([round(each * times) for each in items], 0, is_estimate=True)

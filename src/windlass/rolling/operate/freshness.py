"""Freshness: how old the oldest visit is, and whether the promise of the period will hold.

Every read is bounded: at most 10,000 items are read in the order in which they are due, the number
of all items comes from the tally, and the speed from the statistics of the last minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from windlass.clock import SECOND, Clock, to_datetime
from windlass.core.finish.store import history
from windlass.core.finish.store.history import MINUTE
from windlass.core.limit.store import switch
from windlass.core.limit.switch import setting_of
from windlass.core.ring.store import worker
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind, Registry
from windlass.database.connection import Connection
from windlass.database.dialect.base import Dialect
from windlass.rolling.model import Freshness, RollingView
from windlass.rolling.operate.forecast import FreshnessFacts, VisitSpeed, forecast
from windlass.rolling.store import freshness as store
from windlass.rolling.store.freshness import SAMPLED, Sample
from windlass.value.duration import format_duration
from windlass.value.period import Period

RECENT_MINUTES = 10


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
    period = _period(kind)

    def ask(shard: Shard) -> FreshnessFacts:
        dialect, now = shard.database.dialect, shard.clock.now()
        return shard.database.read(
            lambda connection: _facts(connection, dialect, kind, period, now)
        )

    answers = fleet.ask(ask)
    facts, now = _together(answers.values), clock.now()
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
        actual_rate=facts.speed.per_second,
        forecast=expected.text,
        breaks_at=None if expected.breaks_at is None else to_datetime(expected.breaks_at),
        head_room=expected.head_room,
        missing=answers.missing,
    )


def _period(kind: Kind) -> Period:
    assert kind.period is not None
    return kind.period


def _together(found: Sequence[FreshnessFacts]) -> FreshnessFacts:
    if len(found) == 1:
        return found[0]
    per_second = sum(facts.speed.per_second for facts in found)
    weighed = [
        (facts.speed.per_second, facts.speed.milliseconds)
        for facts in found
        if facts.speed.milliseconds is not None
    ]
    milliseconds = None
    if weighed and per_second:
        milliseconds = sum(speed * each for speed, each in weighed) / per_second
    return FreshnessFacts(
        total=sum(facts.total for facts in found),
        sample=sum((facts.sample for facts in found), Sample()),
        due=sum(facts.due for facts in found),
        speed=VisitSpeed(per_second, milliseconds),
        setting=found[0].setting,
        # A process that serves several shards is a worker in each of them.
        workers=max(facts.workers for facts in found),
        is_broken=any(facts.is_broken for facts in found),
    )


def _facts(
    connection: Connection, dialect: Dialect, kind: Kind, period: Period, now: int
) -> FreshnessFacts:
    until = kind.due_until(now)
    sample = store.sample(
        connection, dialect, kind.name, until=until, late_before=now - period.every
    )
    total = store.total(connection, kind.name)
    due = sample.due
    if due == sample.looked_at and total > SAMPLED:
        # Where most items are due, as after an import, the others can be counted.
        rest = store.not_due(connection, dialect, kind.name, until=until)
        if rest is None:
            rest = total - store.estimate_due(connection, dialect, kind.name, until=until)
        due = min(max(total - rest, due), total)
    serving = [
        view
        for view in worker.listing(connection)
        if kind.name in view.kinds and view.lease_until >= now
    ]
    found = switch.get(connection, kind.name)
    began_at = min((view.joined_at for view in serving), default=0)
    return FreshnessFacts(
        total=total,
        sample=sample,
        due=due,
        speed=_speed(connection, kind.name, began_at, now),
        setting=setting_of(kind, found),
        is_broken=kind.breaker is not None and found.breaker.is_open,
        workers=len(serving),
    )


def _speed(connection: Connection, kind: str, began_at: int, now: int) -> VisitSpeed:
    minute = now // MINUTE
    found = history.minutes_of(connection, kind, since=minute - RECENT_MINUTES)
    if not found:
        return VisitSpeed(0.0, None)
    visits = sum(work.done + work.failed for work in found.values())
    # A worker that has just joined did not work for the whole of its first minute.
    since = max(min(found) * MINUTE, began_at)
    seconds = max(10.0 if began_at else 60.0, (now - since) / SECOND)
    milliseconds = sum(work.milliseconds for work in found.values()) / max(1, visits)
    return VisitSpeed(visits / seconds, milliseconds)


def _scaled(count: int, facts: FreshnessFacts) -> int:
    if facts.due <= facts.sample.due or not facts.sample.looked_at:
        return count
    return min(facts.total, round(count / facts.sample.looked_at * facts.due))

"""Freshness: how old the oldest visit is, and whether the promise of the period will in_flight.

Everything is bounded: up to 10,000 items are looked at in the order in which they are due, the
number of all items comes from the tally, and the speed from the statistics of the last minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection

from windlass.clock import SECOND, Clock, to_datetime
from windlass.core.finish.store import history
from windlass.core.finish.store.history import MINUTE
from windlass.core.limit.store import switch
from windlass.core.limit.switch import Setting, setting_of
from windlass.core.ring.store import worker
from windlass.core.task.kind import Kind
from windlass.database.database import Database
from windlass.database.dialect.base import Dialect
from windlass.rolling.model import Freshness
from windlass.rolling.store import item as rolling
from windlass.rolling.store.item import SAMPLED, Sample
from windlass.value.duration import format_duration
from windlass.value.period import Period

RECENT_MINUTES = 10
DEFAULT_CONCURRENCY = 100
DAY = 86_400 * SECOND


@dataclass(frozen=True)
class Facts:
    """What the database says."""

    total: int
    sample: Sample
    due: int
    speed: _Speed
    setting: Setting
    workers: int
    is_broken: bool


@dataclass(frozen=True)
class _Speed:
    """What was visited in the last minutes: so many a second, each taking so long."""

    per_second: float
    milliseconds: float | None


def facts_of(database: Database, clock: Clock, kind: Kind) -> Facts:
    """What one database says of the items of `kind`."""
    period, now = kind.period, clock.now()
    assert period is not None
    return database.read(lambda connection: _facts(connection, database.dialect, kind, period, now))


def judge(found: Sequence[Facts], kind: Kind, *, now: int, missing: tuple[str, ...]) -> Freshness:
    """How fresh the items of `kind` are, by what all shards that answered say."""
    period = kind.period
    assert period is not None
    facts = _together(found)
    sample = facts.sample
    is_more = facts.due > sample.due
    # Where only a part was looked at, the rest is taken to be like it.
    never = _scaled(sample.never_visited, facts, is_more=is_more)
    late = _scaled(sample.late, facts, is_more=is_more)
    needed = facts.total / (period.every / SECOND)
    forecast = _forecast(facts, period, needed=needed, late=late, now=now)
    oldest = 0 if sample.seen_first is None else max(0, now - sample.seen_first)
    return Freshness(
        total=facts.total,
        never_visited=never,
        due=facts.due,
        overdue=late,
        oldest_age=timedelta(microseconds=oldest),
        needed_rate=needed,
        actual_rate=facts.speed.per_second,
        forecast=forecast.text,
        breaks_at=None if forecast.breaks_at is None else to_datetime(forecast.breaks_at),
        head_room=forecast.head_room,
        missing=missing,
    )


def _together(found: Sequence[Facts]) -> Facts:
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
    return Facts(
        total=sum(facts.total for facts in found),
        sample=sum((facts.sample for facts in found), Sample()),
        due=sum(facts.due for facts in found),
        speed=_Speed(per_second, milliseconds),
        setting=found[0].setting,
        # A process that serves several shards is a worker in each of them.
        workers=max(facts.workers for facts in found),
        is_broken=any(facts.is_broken for facts in found),
    )


def _facts(connection: Connection, dialect: Dialect, kind: Kind, period: Period, now: int) -> Facts:
    until = kind.due_until(now)
    sample = rolling.sample(
        connection, dialect, kind.name, until=until, late_before=now - period.every
    )
    total = rolling.total(connection, kind.name)
    due = sample.due
    if due == sample.looked_at and total > SAMPLED:
        # Where most are due, as after a great many were added, those that are not can be counted.
        rest = rolling.not_due(connection, dialect, kind.name, until=until)
        if rest is None:
            rest = total - rolling.estimate_due(connection, dialect, kind.name, until=until)
        due = min(max(total - rest, due), total)
    serving = [
        view
        for view in worker.listing(connection)
        if kind.name in view.kinds and view.lease_until >= now
    ]
    found = switch.get(connection, kind.name)
    began_at = min((view.joined_at for view in serving), default=0)
    return Facts(
        total=total,
        sample=sample,
        due=due,
        speed=_speed(connection, kind.name, began_at, now),
        setting=setting_of(kind, found),
        is_broken=kind.breaker is not None and found.breaker.is_open,
        workers=len(serving),
    )


def _speed(connection: Connection, kind: str, began_at: int, now: int) -> _Speed:
    minute = now // MINUTE
    found = history.minutes_of(connection, kind, since=minute - RECENT_MINUTES)
    if not found:
        return _Speed(0.0, None)
    visits = sum(work.done + work.failed for work in found.values())
    # A worker that came a moment ago has not worked through the whole of its first minute.
    since = max(min(found) * MINUTE, began_at)
    seconds = max(10.0 if began_at else 60.0, (now - since) / SECOND)
    milliseconds = sum(work.milliseconds for work in found.values()) / max(1, visits)
    return _Speed(visits / seconds, milliseconds)


def _scaled(count: int, facts: Facts, *, is_more: bool) -> int:
    if not is_more or not facts.sample.looked_at:
        return count
    return min(facts.total, round(count / facts.sample.looked_at * facts.due))


@dataclass(frozen=True)
class _Forecast:
    text: str
    breaks_at: int | None = None
    head_room: float | None = None


def _forecast(facts: Facts, period: Period, *, needed: float, late: int, now: int) -> _Forecast:
    promise = f"the {_named(period.every)} promise"
    if not facts.total:
        return _Forecast("there is nothing to visit")
    speed = _capacity(facts)
    backlog = facts.due / speed if speed else None
    if late and _is_broken(facts.sample, period, now):
        return _Forecast(f"{promise} is broken: {_overdue(late)}; {_caught_up(backlog)}", now)
    breaks_at = _breaks_at(facts, period, needed=needed, speed=speed, now=now)
    if breaks_at is not None:
        moment = to_datetime(breaks_at).strftime("%A %Y-%m-%d %H:%M UTC")
        why = "at this rate" if speed else _nobody(facts)
        return _Forecast(f"{promise} breaks on {moment} {why}", breaks_at)
    head_room = None if speed is None else speed / needed
    if head_room is None:
        return _Forecast(f"{promise} holds so far; nothing is known yet of the speed")
    times = f"{head_room:.1f}" if head_room < 10 else f"{min(head_room, 1_000):,.0f}"
    more = "more than " if head_room > 1_000 else ""
    return _Forecast(f"{promise} holds with {more}{times} times head-room", None, head_room)


def _capacity(facts: Facts) -> float | None:
    """How many could be visited a second, over a whole day; None if that is not known, 0 if none.

    While items wait, the actual speed is all there is. Otherwise the speed follows the demand, and
    what could be is told by how long visits take and how many may run at once.
    """
    setting, speed = facts.setting, facts.speed
    if setting.off or facts.is_broken or not facts.workers:
        return 0.0
    most = setting.rate
    if facts.due and speed.per_second:
        possible: float | None = speed.per_second
    elif speed.milliseconds is not None:
        at_once = min(setting.concurrency or DEFAULT_CONCURRENCY, DEFAULT_CONCURRENCY)
        possible = facts.workers * at_once * 1_000 / max(1.0, speed.milliseconds)
    else:
        possible = None
    known = [value for value in (most, possible) if value is not None]
    share = 1.0 if setting.window is None else setting.window.share
    return min(known) * share if known else None


def _breaks_at(
    facts: Facts, period: Period, *, needed: float, speed: float | None, now: int
) -> int | None:
    """When the first item will have waited longer than the period; None if never, or unknown."""
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
    # Items fall due faster than they are visited: the queue grows until it is noticed.
    tolerated = _tolerance(period) / SECOND * speed - facts.due
    return now + round(max(0.0, tolerated) / (needed - speed) * SECOND)


def _is_broken(sample: Sample, period: Period, now: int) -> bool:
    """Whether the oldest item is late by more than the moment it takes to get to it."""
    seen = sample.seen_first
    return seen is not None and now - seen - period.every > _tolerance(period)


def _tolerance(period: Period) -> int:
    return max(MINUTE, period.every // 100)


def _named(every: int) -> str:
    days, rest = divmod(every, DAY)
    return f"{days}-day" if not rest else format_duration(every)


def _overdue(late: int) -> str:
    return "1 item is overdue" if late == 1 else f"{late:,} items are overdue"


def _caught_up(backlog: float | None) -> str:
    if backlog is None:
        return "nothing is known of the speed, or nobody visits them"
    return f"at this rate what is due is visited in {format_duration(backlog * SECOND)}"


def _nobody(facts: Facts) -> str:
    if facts.setting.off:
        return "because the kind is paused"
    return "unless its breaker closes" if facts.is_broken else "because no worker runs it"

"""The forecast: whether the promise of a period will hold, in words."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.clock import SECOND, to_datetime
from windlass.core.finish.store.history import MINUTE
from windlass.core.limit.switch import Setting
from windlass.rolling.store.freshness import Sample
from windlass.value.duration import format_duration
from windlass.value.period import Period

DEFAULT_CONCURRENCY = 100
DAY = 86_400 * SECOND


@dataclass(frozen=True)
class VisitSpeed:
    """The visits of the last minutes: how many a second, and how long each took."""

    per_second: float
    milliseconds: float | None


@dataclass(frozen=True)
class FreshnessFacts:
    """What the databases say about the items of a kind."""

    total: int
    sample: Sample
    due: int
    speed: VisitSpeed
    setting: Setting
    workers: int
    is_broken: bool


@dataclass(frozen=True)
class Forecast:
    """The forecast in words; when the promise breaks, or how much faster than needed it can go."""

    text: str
    breaks_at: int | None = None
    head_room: float | None = None


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
    setting, speed = facts.setting, facts.speed
    if setting.off or facts.is_broken or not facts.workers:
        return 0.0
    known = [] if setting.rate is None else [setting.rate]
    if facts.due and speed.per_second:
        known.append(speed.per_second)
    elif speed.milliseconds is not None:
        at_once = min(setting.concurrency or DEFAULT_CONCURRENCY, DEFAULT_CONCURRENCY)
        known.append(facts.workers * at_once * 1_000 / max(1.0, speed.milliseconds))
    share = 1.0 if setting.window is None else setting.window.share
    return min(known) * share if known else None


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
    tolerated = _tolerance(period) / SECOND * speed - facts.due
    return now + round(max(0.0, tolerated) / (needed - speed) * SECOND)


def _is_broken(sample: Sample, period: Period, now: int) -> bool:
    """Whether the oldest item is later than a short delay in the queue explains."""
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
        return "the speed is not known, or no worker visits them"
    return f"at this rate what is due is visited in {format_duration(backlog * SECOND)}"


def _why_nothing_runs(facts: FreshnessFacts) -> str:
    if facts.setting.off:
        return "because the kind is paused"
    return "unless its breaker closes" if facts.is_broken else "because no worker runs it"

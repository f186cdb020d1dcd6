"""How promises stand, by what the rows say: rolling periods, rounds, backlogs and flow runs.

Time is the time of the clock on the wall: a closed window does not stop it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from windlass.clock import SECOND, from_datetime
from windlass.rolling.model import Freshness
from windlass.value.duration import format_duration
from windlass.value.period import Period
from windlass.value.rate import rate_text
from windlass.watch.promise.model.pace import KindPace
from windlass.watch.promise.model.pace import together as paces_together
from windlass.watch.promise.model.promise import (
    Promise,
    PromiseFace,
    PromiseState,
    at_speed,
    cure_of,
    moment,
    shown,
    span,
)

# The end of a round is not told further ahead than this.
LONGEST = 10 * 365 * 86_400 * SECOND


@dataclass(frozen=True)
class BacklogFacts:
    """What is not done of a task, a cron or a flow.

    `due` waits and is due. `since` is when the oldest that is not done became due, as far as the
    rows tell it; `number` is its id.
    """

    pace: KindPace
    due: int = 0
    since: int | None = None
    # When the next one becomes due.
    next_at: int | None = None
    # How long it usually takes, of those that are kept; None if unknown.
    usual: int | None = None
    number: int | None = None


@dataclass(frozen=True)
class RoundFacts:
    """How far the round of a sweep is. `left` is about how many rows are not done."""

    pace: KindPace
    started_at: int | None = None
    is_running: bool = False
    percent: float | None = None
    left: float | None = None
    # How long the last round took.
    last: int | None = None
    # Why it runs or does not, in words.
    why: str = ""


def judge_rolling(kind: str, period: Period, found: Freshness, pace: KindPace) -> Promise:
    """The promise of a period: every item at least once in it."""
    every, breaks_at = period.every, found.breaks_at
    is_broken = found.overdue > 0 and found.oldest_age > span(every + period.tolerance)
    state: PromiseState = "broken" if is_broken else "at risk" if breaks_at else "kept"
    needed, rate = found.needed_rate, found.actual_rate
    if not found.total:
        state = "unknown"
    age = shown(found.oldest_age // span(1))
    standing = f"{found.overdue:,} of {found.total:,} items are overdue; the oldest age is {age}"
    if state == "at risk" and breaks_at is not None:
        speed = rate or pace.speed
        forecast = at_speed(from_datetime(breaks_at), pace, speed, needed)
    else:
        forecast = found.forecast
    return Promise(
        kind=kind,
        face="rolling",
        promise=f"each item every {format_duration(every)}",
        within=span(every),
        state=state,
        standing=standing if found.total else "it has no items",
        forecast=forecast,
        cure=_cure(kind, state, pace, needed=needed),
        breaks_at=breaks_at,
        oldest_age=found.oldest_age,
        overdue=found.overdue,
        rate=rate if pace.hold is None else 0.0,
        needed_rate=needed,
        missing=found.missing,
    )


def judge_round(kind: str, within: int, found: RoundFacts, *, now: int) -> Promise:
    """The promise of a sweep: a round takes no longer. Between rounds, the last one counts."""
    promise = Promise(
        kind=kind,
        face="sweep",
        promise=f"a round within {format_duration(within)}",
        within=span(within),
        state="unknown",
        standing=found.why,
        forecast="it is known when a round has begun",
    )
    if not found.is_running or found.started_at is None:
        if found.last is None:
            return promise
        is_broken = found.last > within
        return replace(
            promise,
            state="broken" if is_broken else "kept",
            standing=f"the last round took {shown(found.last)}",
            forecast="it is known when the next round has begun",
            cure="see what a change would do: windlass plan" if is_broken else None,
        )
    return _running_round(promise, within, found, found.started_at, now=now)


def _running_round(
    promise: Promise, within: int, found: RoundFacts, started_at: int, *, now: int
) -> Promise:
    pace, speed, ends_by = found.pace, found.pace.speed, started_at + within
    elapsed = max(0, now - started_at)
    ends_at = _end_of(found, now)
    needed = None
    if found.left is not None and ends_by > now:
        needed = found.left / ((ends_by - now) / SECOND)
    percent = "" if found.percent is None else f", {found.percent:.1f} % is done"
    state: PromiseState = "kept"
    breaks_at: int | None = None
    if elapsed > within:
        state, breaks_at = "broken", ends_by
        over = shown(elapsed - within)
        end = "" if ends_at is None else f"; it ends in about {shown(ends_at - now)}"
        forecast = f"it is broken for {over}{end}"
    elif pace.hold is not None or (ends_at is not None and ends_at > ends_by):
        state, breaks_at = "at risk", ends_by
        forecast = at_speed(ends_by, pace, speed, needed)
    elif ends_at is None:
        forecast = "it holds so far; when the round ends is not known"
    else:
        forecast = f"it holds: the round ends in about {shown(ends_at - now)}"
    return replace(
        promise,
        state=state,
        standing=f"the round runs for {shown(elapsed)}{percent}",
        forecast=forecast,
        cure=_cure(promise.kind, state, pace, needed=needed),
        breaks_at=moment(breaks_at),
        ends_at=moment(ends_at),
        percent=found.percent,
        rate=speed,
        needed_rate=needed,
    )


def _end_of(found: RoundFacts, now: int) -> int | None:
    """When the round ends at the present speed; None if that is not known."""
    speed, window = found.pace.speed, found.pace.setting.window
    if not speed or found.left is None:
        return None
    takes = min(round(found.left / speed * SECOND), LONGEST)
    return now + takes if window is None else window.open_for(takes, since=now)


def judge_backlog(
    kind: str, face: PromiseFace, within: int, found: BacklogFacts, *, now: int
) -> Promise:
    """The promise of a task or a cron: done that soon after it is due."""
    pace = found.pace
    promise = Promise(
        kind=kind,
        face=face,
        promise=f"done within {format_duration(within)} of its due time",
        within=span(within),
        state="kept",
        standing="nothing is due",
        forecast="it holds: nothing is due",
        rate=pace.speed,
    )
    if found.since is None or found.since > now:
        return promise if found.next_at is None else _idle(promise, within, found, found.next_at)
    age = now - found.since
    waiting = f"{found.due:,} due; " if face == "task" and found.due else ""
    standing = f"{waiting}the oldest is due since {shown(age)}"
    needed = found.due / (within / SECOND) if found.due else None
    state: PromiseState = "kept"
    breaks_at = _queue_breaks_at(found, within, now)
    if age > within:
        state, breaks_at = "broken", found.since + within
        forecast = f"it is broken for {shown(age - within)}{_caught_up(found)}"
    elif breaks_at is not None:
        state = "at risk"
        forecast = at_speed(breaks_at, pace, pace.speed, needed)
    elif pace.speed is None:
        forecast = "it holds so far; the speed is not known yet"
    else:
        forecast = f"it holds{_caught_up(found)}"
    cure = _cure(kind, state, pace, needed=needed)
    if state == "broken" and cure is None:
        cure = f"see what it does: windlass task list --kind {kind}"
    return replace(
        promise,
        state=state,
        standing=standing,
        forecast=forecast,
        cure=cure,
        breaks_at=moment(breaks_at),
        oldest_age=span(age),
        needed_rate=needed,
    )


def _idle(promise: Promise, within: int, found: BacklogFacts, next_at: int) -> Promise:
    """Nothing is due, and it is known when something will be."""
    if found.pace.hold is None:
        return replace(promise, forecast="it holds")
    breaks_at = next_at + within
    return replace(
        promise,
        state="at risk",
        forecast=at_speed(breaks_at, found.pace, None, None),
        cure=cure_of(promise.kind, found.pace, speed=0.0, needed=None),
        breaks_at=moment(breaks_at),
    )


def _queue_breaks_at(found: BacklogFacts, within: int, now: int) -> int | None:
    """When a row of the queue will have waited too long; None if none will, or it is unknown.

    The oldest row was due at `since` and the last one is due now; between them the wait grows or
    shrinks evenly.
    """
    assert found.since is not None
    speed, first_late = found.pace.speed, found.since + within
    window = found.pace.setting.window
    if speed == 0.0:
        return first_late
    opens_at = now if window is None else window.opens_at(now)
    if opens_at is None or opens_at > first_late:
        return first_late
    if not speed or not found.due:
        return None
    age, clears = (now - found.since) / SECOND, found.due / speed
    if clears <= within / SECOND:
        return None
    # The wait of the row at a place of the queue, from 0 to 1, is age + place * (clears - age).
    place = (within / SECOND - age) / max(1e-9, clears - age)
    return now + round(min(1.0, max(0.0, place)) * clears * SECOND)


def _caught_up(found: BacklogFacts) -> str:
    speed = found.pace.speed
    if not speed or not found.due:
        return ""
    takes = shown(round(found.due / speed * SECOND))
    return f"; at {rate_text(speed)} what is due is done in {takes}"


def judge_flow(kind: str, within: int, found: BacklogFacts, *, now: int) -> Promise:
    """The promise of a flow: a run takes no longer from its start to its end."""
    usual = "" if found.usual is None else f"; runs usually take {shown(found.usual)}"
    promise = Promise(
        kind=kind,
        face="flow",
        promise=f"a run within {format_duration(within)}",
        within=span(within),
        state="kept",
        standing=f"no run goes on{usual}",
        forecast="it holds: no run goes on",
    )
    if found.since is None:
        return promise
    age = max(0, now - found.since)
    breaks_at, ends_at = found.since + within, None
    if found.usual is not None and age <= found.usual:
        ends_at = found.since + found.usual
    state: PromiseState = "kept"
    forecast = "it holds so far" if ends_at is None else "it holds if the run ends as usual"
    if age > within:
        state = "broken"
        forecast = f"it is broken for {shown(age - within)}"
    elif ends_at is not None and ends_at > breaks_at:
        state = "at risk"
        forecast = f"{at_speed(breaks_at, found.pace, None, None)}, as usual"
    return replace(
        promise,
        state=state,
        standing=f"the oldest run, {found.number}, goes on for {shown(age)}{usual}",
        forecast=forecast,
        cure=None if state == "kept" else f"see why: windlass flow show {found.number}",
        breaks_at=None if state == "kept" else moment(breaks_at),
        ends_at=moment(ends_at),
        oldest_age=span(age),
    )


def backlogs_together(found: Sequence[BacklogFacts]) -> BacklogFacts:
    """What is not done in several databases."""
    oldest = min(
        (each for each in found if each.since is not None),
        key=lambda each: each.since or 0,
        default=found[0],
    )
    usual = [each.usual for each in found if each.usual is not None]
    following = [each.next_at for each in found if each.next_at is not None]
    return BacklogFacts(
        pace=paces_together([each.pace for each in found]),
        due=sum(each.due for each in found),
        since=oldest.since,
        next_at=min(following, default=None),
        usual=max(usual, default=None),
        number=oldest.number,
    )


def _cure(kind: str, state: PromiseState, pace: KindPace, *, needed: float | None) -> str | None:
    if state in ("kept", "unknown"):
        return None
    speed = pace.speed
    return cure_of(kind, pace, speed=speed, needed=needed)

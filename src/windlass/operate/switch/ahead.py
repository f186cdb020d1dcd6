"""The two weeks ahead of a window: on each day, from when until when it is open."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from windlass.value.calendar.dated import Span, merged
from windlass.value.calendar.local import (
    DAY_MINUTES,
    local_minute,
    local_time,
    minute_of,
    moment_of,
)
from windlass.value.calendar.window import Window
from windlass.view.field import Moment

DAYS = 14


@dataclass(frozen=True)
class OpenHours:
    """A stretch of a day, in minutes since its midnight by the clocks of the zone."""

    begin: int
    end: int


@dataclass(frozen=True)
class DayAhead:
    """A day, as an ISO date, and the times at which a window is open on it."""

    date: str
    open: list[OpenHours]


@dataclass(frozen=True)
class WindowAhead:
    """Today and the thirteen days after it. `now` is in minutes since midnight of today."""

    zone: str
    now: int
    is_open: bool
    # When it opens; None if it is open, or does not open again.
    opens_at: Moment | None
    days: list[DayAhead]


def ahead_of(window: Window, *, now: int) -> WindowAhead:
    """The two weeks of a window that begin today."""
    shown = local_time(now, window.zone)
    today = shown.date()
    first = minute_of(today)
    begin = moment_of(today, 0, window.zone)
    end = moment_of(today + timedelta(days=DAYS), 0, window.zone)
    spans = merged(_shown(window, *each) for each in window.openings(begin, end))
    days = []
    for number in range(DAYS):
        midnight = first + number * DAY_MINUTES
        date = (today + timedelta(days=number)).isoformat()
        days.append(DayAhead(date, [*_within(spans, midnight)]))
    is_open = window.is_open(now)
    return WindowAhead(
        zone=window.zone,
        now=local_minute(shown) - first,
        is_open=is_open,
        opens_at=None if is_open else window.opens_at(now),
        days=days,
    )


def _shown(window: Window, begin: int, end: int) -> Span:
    """What the clocks show from the begin to the end of an opening."""
    # The last microsecond: where the clocks are changed then, they show another time at the end.
    last = local_minute(local_time(end - 1, window.zone)) + 1
    first = local_minute(local_time(begin, window.zone))
    # Where the clocks go back, an opening may end before it began.
    return Span(min(first, last - 1), max(first + 1, last))


def _within(spans: tuple[Span, ...], midnight: int) -> list[OpenHours]:
    """The parts of a day, in minutes since its midnight."""
    cut = ((max(begin - midnight, 0), min(end - midnight, DAY_MINUTES)) for begin, end in spans)
    return [OpenHours(begin, end) for begin, end in cut if begin < end]

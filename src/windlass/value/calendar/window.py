"""Windows: "Mon-Fri 01:00-07:00, not 2026-11-11 Asia/Shanghai", and when one opens.

Only the local time in the zone counts. So a window that would open at a time that the clocks skip
opens right after the gap, and times that the clocks show twice are open twice. Dates that are off
and holidays win over everything; dated openings add to the parts of the week.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, cast

from windlass.clock import SECOND
from windlass.errors import BadWindow
from windlass.value.calendar.dated import (
    BadDate,
    Span,
    begin_after,
    is_dated,
    merged,
    read_dated,
    span_at,
)
from windlass.value.calendar.holiday import HolidayRule, Holidays, make_holidays
from windlass.value.calendar.local import (
    DAY_MINUTES,
    MINUTE,
    WEEK_MINUTES,
    clock_change,
    day_of,
    is_zone,
    local_minute,
    local_time,
)

LONGEST_TEXT = 255
LONGEST_WEEKS = 100 * 52
# A search for an opening ends after this many changes of the window; with holidays, one a day.
MOST_STEPS = 3_000

_DAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAYS = {name: day for day, full in enumerate(_DAY_NAMES) for name in (full, full[:3])}
_HOURS = re.compile(r"([0-9]{1,2}):([0-9]{2})-([0-9]{1,2}):([0-9]{2})")
_EXAMPLES = (
    '"01:00-07:00", "Mon-Fri 22:00-06:00, Sat-Sun", "01:00-07:00 Asia/Shanghai" '
    'or "01:00-07:00, not 2026-11-11"'
)


def parse_window(given: object, *, what: str = "window") -> Window:
    """The window that `given` describes, or is. `what` names the option in the error.

    Commas separate parts. A part is days ("Sat-Sun", all day long), a time range ("01:00-07:00",
    every day), or days and a time range. So "Mon, Wed 09:00-17:00" is all of Monday, and Wednesday
    from nine to five. A range that ends before it begins ends on the next day. A part may also be a
    date or begin and end with dates; "not" before it or "off" after it closes the window then. If
    all parts close it, it is open at all other times. A time zone at the end applies to all parts;
    without it, times are UTC.
    """
    if isinstance(given, Window):
        return given
    return Window(cast(str, given), what=what)


class Part(NamedTuple):
    """Part of a week in minutes since Monday 00:00; `begin` is included, `end` is not."""

    begin: int
    end: int


class Opening(NamedTuple):
    """A stretch of time in which a window is open; `end` is not in it."""

    begin: int
    end: int


@dataclass(frozen=True, init=False)
class Window:
    """The times at which tasks may run: of each week, and on dates.

    `holidays` are days on which it stays closed: a file with one date a line, or a function that
    gets a date and returns whether it is one. `what` names the option in errors. All moments are
    microseconds since the epoch.
    """

    # The given text with single spaces.
    text: str
    zone: str
    # Sorted, and they do not touch; so are the dated times at which it is open, or off.
    parts: tuple[Part, ...]
    opens: tuple[Span, ...]
    offs: tuple[Span, ...]
    holidays: Holidays | None

    def __init__(
        self, text: str, *, holidays: HolidayRule | None = None, what: str = "window"
    ) -> None:
        known = None if holidays is None else make_holidays(holidays, what=what)
        for name, value in (*_read_text(text, what=what), ("holidays", known)):
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return self.text if self.holidays is None else f"{self.text} except {self.holidays.name}"

    @property
    def is_weekly(self) -> bool:
        """Whether each week is like the other."""
        return not self.opens and not self.offs and self.holidays is None

    @property
    def share(self) -> float:
        """The open fraction of a week without dates and clock changes."""
        return sum(part.end - part.begin for part in self.parts) / WEEK_MINUTES

    def is_open(self, moment: int) -> bool:
        """Whether it is open by the local time at `moment`."""
        minute = local_minute(local_time(moment, self.zone))
        if self._is_off(minute):
            return False
        return span_at(self.opens, minute) is not None or self._is_in_week(minute)

    def opens_at(self, moment: int) -> int | None:
        """The first open moment from `moment` on; None if there is none within sight."""
        for _ in range(MOST_STEPS):
            if self.is_open(moment):
                return moment
            stop = self._next_stop(moment)
            if stop is None:
                return None
            moment = stop
        return None

    def open_for(self, length: int, *, since: int) -> int | None:
        """The moment at which the window has been open for `length` since `since`.

        None if it never is, or only after so long that nobody can tell.
        """
        moment, rest = since, length
        for _ in range(MOST_STEPS):
            weeks, rest = self._whole_weeks(moment, rest)
            moment += weeks * WEEK_MINUTES * MINUTE
            if rest <= 0:
                return moment
            opens = self.opens_at(moment)
            stop = None if opens is None else self._next_stop(opens)
            if opens is None or stop is None:
                return None
            step = min(rest, stop - opens)
            moment, rest = opens + step, rest - step
        return None

    def openings(self, since: int, until: int) -> list[Opening]:
        """The times between two moments at which it is open, in order."""
        found: list[Opening] = []
        moment = since
        while moment < until:
            stop = min(until, self._next_stop(moment) or until)
            if self.is_open(moment):
                if found and found[-1].end == moment:
                    found[-1] = Opening(found[-1].begin, stop)
                else:
                    found.append(Opening(moment, stop))
            moment = stop
        return found

    def share_between(self, since: int, until: int) -> float:
        """The open fraction of the time between two moments."""
        return sum(end - begin for begin, end in self.openings(since, until)) / (until - since)

    def _is_in_week(self, minute: int) -> bool:
        minute %= WEEK_MINUTES
        before = bisect_right(self.parts, (minute, WEEK_MINUTES))
        return before > 0 and minute < self.parts[before - 1].end

    def _is_off(self, minute: int) -> bool:
        if span_at(self.offs, minute) is not None:
            return True
        return self.holidays is not None and self.holidays.has(day_of(minute))

    def _whole_weeks(self, moment: int, length: int) -> tuple[int, int]:
        """How many weeks from `moment` on are like any other and needed, and what is left then."""
        a_week = round(self.share * WEEK_MINUTES) * MINUTE
        if not a_week or self.holidays is not None:
            return 0, length
        minute = local_minute(local_time(moment, self.zone))
        most = LONGEST_WEEKS
        if not self.is_weekly:
            if span_at(self.opens, minute) or span_at(self.offs, minute):
                return 0, length
            dates = (begin_after(spans, minute) for spans in (self.opens, self.offs))
            ahead = [each - minute for each in dates if each is not None]
            # A day for changes of the clocks.
            most = min([most, *((each - DAY_MINUTES) // WEEK_MINUTES for each in ahead)])
        # Something is left, so that the end is that of an opening.
        weeks = max(0, min((length - 1) // a_week, most))
        left = length - weeks * a_week
        return weeks, ((left - 1) % a_week + 1 if weeks == LONGEST_WEEKS else left)

    def _next_stop(self, moment: int) -> int | None:
        """A later moment, and the window does not change in between; None if it never will."""
        local = local_time(moment, self.zone)
        minute = local_minute(local)
        edge = self._next_edge(minute)
        if edge is None:
            return None
        begin = moment - local.second * SECOND - local.microsecond
        stop = begin + min(edge - minute, DAY_MINUTES) * MINUTE
        changed = clock_change(moment, stop, self.zone)
        if changed < stop or edge - minute <= 3 * DAY_MINUTES:
            return changed
        # Clocks that are changed later, by less than a day, reach neither this minute nor the edge.
        return begin + (edge - minute - 2 * DAY_MINUTES) * MINUTE

    def _next_edge(self, minute: int) -> int | None:
        """The next local minute at which it may open or close; None if there is none."""
        off = span_at(self.offs, minute)
        if off is not None:
            return off.end
        edges = [begin_after(self.offs, minute)]
        if self.holidays is not None:
            midnight = (minute // DAY_MINUTES + 1) * DAY_MINUTES
            if self.holidays.has(day_of(minute)):
                return midnight
            edges.append(midnight if self.parts or self.opens else None)
        opened = span_at(self.opens, minute)
        if opened is not None:
            edges.append(opened.end)
        else:
            edges += [begin_after(self.opens, minute), self._next_part_edge(minute)]
        return min((each for each in edges if each is not None), default=None)

    def _next_part_edge(self, minute: int) -> int | None:
        if not self.parts:
            return None
        week, rest = divmod(minute, WEEK_MINUTES)
        edges = (edge for part in self.parts for edge in part)
        edge = next((each for each in edges if each > rest), self.parts[0].begin + WEEK_MINUTES)
        return week * WEEK_MINUTES + edge


def _read_text(given: object, *, what: str) -> Iterator[tuple[str, object]]:
    """The fields of the window that a text describes."""
    if not isinstance(given, str):
        raise BadWindow(f"{what}: cannot read {given!r}; give a string such as {_EXAMPLES}")
    text = " ".join(given.split())
    if not text:
        raise BadWindow(f"{what}: {given!r} is empty; write it as {_EXAMPLES}")
    if len(text) > LONGEST_TEXT:
        raise BadWindow(
            f"{what}: '{text[:40]}...' has {len(text)} characters; at most {LONGEST_TEXT} fit, "
            'so write "Mon-Fri" instead of each day and give fewer ranges'
        )
    described, zone = _split_zone(text, what=what)
    parts = [part.strip() for part in described.split(",")]
    if not all(parts):
        raise BadWindow(f"{what}: {text!r} has an extra comma; use commas only between parts")
    weekly = [each for part in parts if not is_dated(part) for each in _read_part(part, what=what)]
    dated = [_read_dated(part, what=what) for part in parts if is_dated(part)]
    if all(is_off for _, is_off in dated) and not weekly:
        weekly = [Part(0, WEEK_MINUTES)]
    yield from (("text", text), ("zone", zone), ("parts", _merge(weekly)))
    yield "opens", merged(span for span, is_off in dated if not is_off)
    yield "offs", merged(span for span, is_off in dated if is_off)


def _read_dated(part: str, *, what: str) -> tuple[Span, bool]:
    try:
        return read_dated(part)
    except BadDate as problem:
        raise BadWindow(f"{what}: cannot read {part!r}; {problem}") from None


def _split_zone(text: str, *, what: str) -> tuple[str, str]:
    """The parts, and the time zone after them or UTC."""
    words = re.sub(r"\s*-\s*", "-", text).replace(",", " , ").split()
    last = words[-1]
    if last.lower() in (",", "off") or _is_hours(last) or _is_days(last):
        return " ".join(words), "UTC"
    if not is_zone(last):
        if "/" in last:
            raise BadWindow(
                f"{what}: time zone {last!r} is not known; "
                'give an IANA name such as "Asia/Shanghai" or "UTC"'
            )
        raise BadWindow(
            f"{what}: cannot read {last!r}, which is not a day, a time range or a time zone; "
            f"write the window as {_EXAMPLES}"
        )
    described = words[:-2] if words[-2:-1] == [","] else words[:-1]
    if not described:
        raise BadWindow(f"{what}: {text!r} is a time zone without times; write it as {_EXAMPLES}")
    return " ".join(described), last


def _is_hours(word: str) -> bool:
    return word[0].isdigit()


def _is_days(word: str) -> bool:
    return all(name in _DAYS for name in word.lower().split("-"))


def _read_part(part: str, *, what: str) -> Iterator[Part]:
    """The week parts that one part of the text describes; they may pass the end of the week."""
    days, (begin, end) = range(7), (0, DAY_MINUTES)
    match part.split():
        case [hours] if _is_hours(hours):
            begin, end = _read_hours(hours, what=what)
        case [names]:
            days = _read_days(names, what=what)
        case [names, hours] if _is_hours(hours) and not _is_hours(names):
            days = _read_days(names, what=what)
            begin, end = _read_hours(hours, what=what)
        case _:
            raise BadWindow(
                f"{what}: cannot read {part!r}; put a comma between parts such as "
                '"Mon-Fri 01:00-07:00", and one time zone at the end'
            )
    for day in days:
        midnight = day % 7 * DAY_MINUTES
        yield Part(midnight + begin, midnight + end)


def _read_days(names: str, *, what: str) -> range:
    """The named days, Monday is 0; a range that passes Sunday continues with 7."""
    if "/" in names:
        raise BadWindow(f"{what}: cannot read {names!r} here; put the time zone at the end")
    first, dash, last = names.lower().partition("-")
    for name in (first, last) if dash else (first,):
        if name not in _DAYS:
            raise BadWindow(
                f"{what}: cannot read {names!r}, {name!r} is not a day; "
                'write days as "Mon", "Monday" or "Mon-Fri"'
            )
    begin = _DAYS[first]
    return range(begin, begin + (_DAYS[last or first] - begin) % 7 + 1)


def _read_hours(hours: str, *, what: str) -> tuple[int, int]:
    """The begin and the end, in minutes since the midnight before the begin."""
    match = _HOURS.fullmatch(hours)
    if match is None:
        raise BadWindow(f'{what}: cannot read {hours!r}; write times as "09:00-17:00"')
    begin_hour, begin_minute, end_hour, end_minute = (int(number) for number in match.groups())
    begin, end = begin_hour * 60 + begin_minute, end_hour * 60 + end_minute
    cure = None
    if max(begin_hour, end_hour) > 24:
        cure = "hours go from 00:00 to 24:00"
    elif max(begin_minute, end_minute) > 59:
        cure = "minutes go from 00 to 59"
    elif max(begin, end) > DAY_MINUTES:
        cure = "hours go from 00:00 to 24:00"
    elif begin == DAY_MINUTES:
        cure = "24:00 can only be an end, so begin at 00:00"
    elif begin == end:
        cure = 'it is empty; for the whole day write "00:00-24:00"'
    if cure is not None:
        raise BadWindow(f"{what}: cannot read {hours!r}; {cure}")
    return begin, end if begin < end else end + DAY_MINUTES


def _merge(ranges: list[Part]) -> tuple[Part, ...]:
    """The same times within one week, sorted and joined where they touch."""
    within = [Part(begin, min(end, WEEK_MINUTES)) for begin, end in ranges]
    within += [Part(0, end - WEEK_MINUTES) for _, end in ranges if end > WEEK_MINUTES]
    merged: list[Part] = []
    for part in sorted(within):
        if merged and part.begin <= merged[-1].end:
            merged[-1] = Part(merged[-1].begin, max(merged[-1].end, part.end))
        else:
            merged.append(part)
    return tuple(merged)

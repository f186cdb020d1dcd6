"""Time-of-day windows: "Mon-Fri 01:00-07:00 Asia/Shanghai", and when one opens.

Only the local time in the zone counts. So a window that would open at a time that the clocks skip
opens right after the gap, and times that the clocks show twice are open twice.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from windlass.clock import SECOND, to_datetime
from windlass.errors import BadWindow

LONGEST_TEXT = 255
MINUTE = 60 * SECOND
DAY_MINUTES = 24 * 60
WEEK_MINUTES = 7 * DAY_MINUTES
LONGEST_WEEKS = 100 * 52

_DAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAYS = {name: day for day, full in enumerate(_DAY_NAMES) for name in (full, full[:3])}
_HOURS = re.compile(r"([0-9]{1,2}):([0-9]{2})-([0-9]{1,2}):([0-9]{2})")
_EXAMPLES = '"01:00-07:00", "Mon-Fri 22:00-06:00, Sat-Sun" or "01:00-07:00 Asia/Shanghai"'


def parse_window(given: object, *, what: str = "window") -> Window:
    """The window that `given` describes. `what` names the option in the error.

    Commas separate parts. A part is days ("Sat-Sun", all day long), a time range ("01:00-07:00",
    every day), or days and a time range. So "Mon, Wed 09:00-17:00" is all of Monday, and Wednesday
    from nine to five. A range that ends before it begins ends on the next day. A time zone at the
    end applies to all parts; without it, times are UTC.
    """
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
    ranges = [each for part in parts for each in _read_part(part, what=what)]
    return Window(text, zone, _merge(ranges))


class Part(NamedTuple):
    """Part of a week in minutes since Monday 00:00; `begin` is included, `end` is not."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Window:
    """The times of the week at which tasks may run.

    `text` is the given text with single spaces. `parts` are sorted and do not touch. All moments
    are microseconds since the epoch.
    """

    text: str
    zone: str
    parts: tuple[Part, ...]

    @property
    def share(self) -> float:
        """The open fraction of a week without clock changes."""
        return sum(part.end - part.begin for part in self.parts) / WEEK_MINUTES

    def is_open(self, moment: int) -> bool:
        """Whether the local time at `moment` is within a part."""
        minute = _minute_of_week(_local(moment, self.zone))
        before = bisect_right(self.parts, (minute, WEEK_MINUTES))
        return before > 0 and minute < self.parts[before - 1].end

    def opens_at(self, moment: int) -> int:
        """The first open moment from `moment` on."""
        while not self.is_open(moment):
            moment = self._next_stop(moment)
        return moment

    def open_for(self, length: int, *, since: int) -> int:
        """The moment at which the window has been open for `length` since `since`."""
        a_week = round(self.share * WEEK_MINUTES) * MINUTE
        weeks, rest = divmod(length, a_week)
        moment = since + min(weeks, LONGEST_WEEKS) * WEEK_MINUTES * MINUTE
        while rest > 0:
            moment = self.opens_at(moment)
            step = min(rest, self._next_stop(moment) - moment)
            moment, rest = moment + step, rest - step
        return moment

    def _next_stop(self, moment: int) -> int:
        """A later moment; the window and the clocks do not change in between."""
        local = _local(moment, self.zone)
        minute = _minute_of_week(local)
        edges = (edge for part in self.parts for edge in part)
        edge = next((each for each in edges if each > minute), self.parts[0].begin + WEEK_MINUTES)
        # No zone changes its clocks twice in a day, so comparing both ends of a day is enough.
        minutes = min(edge - minute, DAY_MINUTES)
        stop = moment + minutes * MINUTE - local.second * SECOND - local.microsecond
        return _clock_change(moment, stop, self.zone)


def _local(moment: int, zone: str) -> datetime:
    return to_datetime(moment).astimezone(_zone_named(zone))


def _minute_of_week(local: datetime) -> int:
    return local.weekday() * DAY_MINUTES + local.hour * 60 + local.minute


def _clock_change(after: int, until: int, zone: str) -> int:
    """The first moment whose UTC offset differs from that of `after`; at most `until`."""
    offset = _local(after, zone).utcoffset()
    if _local(until, zone).utcoffset() == offset:
        return until
    while until - after > 1:
        middle = (after + until) // 2
        if _local(middle, zone).utcoffset() == offset:
            after = middle
        else:
            until = middle
    return until


@cache
def _zone_named(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _split_zone(text: str, *, what: str) -> tuple[str, str]:
    """The parts, and the time zone after them or UTC."""
    words = re.sub(r"\s*-\s*", "-", text).replace(",", " , ").split()
    last = words[-1]
    if last == "," or _is_hours(last) or _is_days(last):
        return " ".join(words), "UTC"
    try:
        _zone_named(last)
    except (OSError, ValueError, KeyError, ImportError) as problem:
        if "/" in last:
            raise BadWindow(
                f"{what}: time zone {last!r} is not known; "
                'give an IANA name such as "Asia/Shanghai" or "UTC"'
            ) from problem
        raise BadWindow(
            f"{what}: cannot read {last!r}, which is not a day, a time range or a time zone; "
            f"write the window as {_EXAMPLES}"
        ) from problem
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

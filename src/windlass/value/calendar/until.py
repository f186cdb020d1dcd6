"""Moments that people write: "06:00", "2026-11-12 04:00 Europe/Berlin", "2h"."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from windlass.clock import SECOND, from_datetime, to_datetime
from windlass.errors import BadDuration, PastTime
from windlass.value.calendar.dated import BadDate, read_date, read_time
from windlass.value.calendar.local import (
    DAY_MINUTES,
    MINUTE,
    clock_change,
    is_zone,
    local_minute,
    local_time,
    moment_of,
)
from windlass.value.duration import UNITS, parse_duration

Until = str | datetime | timedelta

_TIME = "[0-9]+:[0-9:]+"
_TEXT = re.compile(
    rf"(?:(?P<date>[0-9]+-[0-9-]+)(?:[ T](?P<time>{_TIME}))?|(?P<next>{_TIME}))(?: (?P<zone>\S+))?"
)
_DURATION = re.compile(rf"[0-9.]+ ?({'|'.join(UNITS)})([ 0-9]|$)")
_EXAMPLES = '"06:00", "06:00 Asia/Shanghai", "2026-11-12 04:00 Europe/Berlin" or "2h"'


def parse_until(given: object, *, now: int, what: str = "until") -> int:
    """The moment after `now` that `given` names, in microseconds since the epoch.

    A time of day is the next time that clocks show it; where they skip it, the end of the gap.
    Without a zone, times are UTC.
    """
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise BadDuration(f"{what}={given} has no time zone; write datetime(..., tzinfo=...)")
        return _later(from_datetime(given), now, f"{what}={given}")
    if isinstance(given, timedelta) or (isinstance(given, str) and _DURATION.match(given.strip())):
        return now + parse_duration(given, what=what)
    if not isinstance(given, str):
        raise BadDuration(
            f"{what}={given!r} is neither a text nor a time; write it as {_EXAMPLES}, "
            "or give a datetime or a timedelta"
        )
    text = " ".join(given.split())
    found = _TEXT.fullmatch(text)
    if found is None:
        raise BadDuration(f"{what}={given!r} cannot be read; write it as {_EXAMPLES}")
    zone = found["zone"] or "UTC"
    if not is_zone(zone):
        raise BadDuration(
            f"{what}={given!r}: time zone {zone!r} is not known; "
            'give an IANA name such as "Asia/Shanghai"'
        )
    try:
        day = None if found["date"] is None else read_date(found["date"])
        minutes = read_time(found["next"] or found["time"] or "00:00", is_end=True)
    except BadDate as problem:
        raise BadDuration(f"{what}={given!r} cannot be read; {problem}") from None
    if day is None:
        return _next(minutes % DAY_MINUTES, zone, now)
    return _later(moment_of(day, minutes, zone), now, f"{what}={given!r}")


def _next(minutes: int, zone: str, now: int) -> int:
    """The next moment after `now` at which clocks begin to show a time of day."""
    shown = local_time(now, zone)
    moment = now + MINUTE - shown.second * SECOND - shown.microsecond
    while (missing := (minutes - local_minute(local_time(moment, zone))) % DAY_MINUTES) > 0:
        moment = clock_change(moment, moment + missing * MINUTE, zone)
        if _is_skipped(minutes, moment, zone):
            break
    return moment


def _is_skipped(minutes: int, change: int, zone: str) -> bool:
    """Whether clocks that are changed at `change` skip a time of day."""
    before = local_minute(local_time(change - 1, zone))
    after = local_minute(local_time(change, zone))
    wanted = before + (minutes - before) % DAY_MINUTES
    return before < wanted < after


def _later(moment: int, now: int, what: str) -> int:
    if moment <= now:
        raise PastTime(
            f"{what} has passed (it is {to_datetime(now):%Y-%m-%d %H:%M} UTC); "
            "give a time in the future"
        )
    return moment

"""Local time in a zone, counted in minutes, and the moments at which clocks are changed."""

from __future__ import annotations

from datetime import date, datetime
from functools import cache
from zoneinfo import ZoneInfo

from windlass.clock import SECOND, to_datetime

MINUTE = 60 * SECOND
DAY_MINUTES = 24 * 60
WEEK_MINUTES = 7 * DAY_MINUTES


@cache
def zone_named(name: str) -> ZoneInfo:
    """The zone of an IANA name; raises what `ZoneInfo` raises, several sorts of errors."""
    return ZoneInfo(name)


def is_zone(name: str) -> bool:
    """Whether there is a zone of this name."""
    try:
        zone_named(name)
    except (OSError, ValueError, KeyError, ImportError):
        return False
    return True


def local_time(moment: int, zone: str) -> datetime:
    """What the clocks of a zone show at `moment`, in microseconds since the epoch."""
    return to_datetime(moment).astimezone(zone_named(zone))


def local_minute(shown: datetime) -> int:
    """Whole minutes since Monday, 1 January of the year 1, by what clocks show."""
    return minute_of(shown.date()) + shown.hour * 60 + shown.minute


def minute_of(day: date) -> int:
    """The minute in which a day begins."""
    return (day.toordinal() - 1) * DAY_MINUTES


def day_of(minute: int) -> date:
    """The day that has this minute."""
    return date.fromordinal(minute // DAY_MINUTES + 1)


def moment_of(day: date, minutes: int, zone: str) -> int:
    """The first moment of a local time, or the end of the gap if the clocks skip it."""
    wanted = minute_of(day) + minutes
    # A day before it in any zone; then step by step, at each change of the clocks.
    moment = (wanted - minute_of(date(1970, 1, 1)) - 2 * DAY_MINUTES) * MINUTE
    while (missing := wanted - local_minute(local_time(moment, zone))) > 0:
        moment = clock_change(moment, moment + min(missing, DAY_MINUTES) * MINUTE, zone)
    return moment


def clock_change(after: int, until: int, zone: str) -> int:
    """The first moment whose UTC offset differs from that of `after`; at most `until`.

    No zone changes its clocks twice in a day, so up to a day comparing both ends is enough.
    """
    offset = local_time(after, zone).utcoffset()
    if local_time(until, zone).utcoffset() == offset:
        return until
    while until - after > 1:
        middle = (after + until) // 2
        if local_time(middle, zone).utcoffset() == offset:
            after = middle
        else:
            until = middle
    return until

"""A cron schedule in words: "every day at 03:00", or the expression where words would not help."""

from __future__ import annotations

import re

from windlass.value.cron import Schedule
from windlass.value.duration import format_duration
from windlass.view.said import Said, TimeSpan, say

DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# More times of day than these are not a sentence any more.
MOST_TIMES = 6

_STEP = re.compile(r"\*/(\d+)")
_LIST = re.compile(r"\d+(,\d+)*")
_RANGE = re.compile(r"(\d+)-(\d+)")


def words_of(schedule: Schedule) -> Said:
    """When the turns of a schedule are, without its time zone."""
    if schedule.interval:
        every = TimeSpan(schedule.interval, format_duration(schedule.interval))
        return say("cron.every", every=every)
    other = say("cron.expression", expression=schedule.expression)
    *seconds, minute, hour, day, month, weekday = schedule.expression.lower().split()
    if seconds and seconds != ["0"]:
        step = _STEP.fullmatch(seconds[0])
        rest = (minute, hour, day, month, weekday)
        if step is None or set(rest) != {"*"} or 60 % int(step[1]):
            return other
        return say("cron.seconds", number=int(step[1]))
    is_each_day = day == month == weekday == "*"
    when = _time(minute, hour, is_each_day=is_each_day)
    if when is not None and not is_each_day:
        when = _on(when, day, month, weekday)
    return other if when is None else when


def _time(minute: str, hour: str, *, is_each_day: bool) -> Said | None:
    if hour == "*" or _RANGE.fullmatch(hour):
        when = _minutes(minute)
        hours = _RANGE.fullmatch(hour)
        if when is None or hours is None:
            return when
        first, last = (f"{int(each):02}" for each in hours.groups())
        return say("cron.from_to", when=when, first=first, last=last)
    if (step := _STEP.fullmatch(hour)) is not None:
        if not minute.isdecimal() or 24 % int(step[1]):
            return None
        return say("cron.hours", number=int(step[1]), minute=int(minute))
    if not (_LIST.fullmatch(hour) and _LIST.fullmatch(minute)):
        return None
    times = sorted(
        f"{int(one):02}:{int(other):02}" for one in hour.split(",") for other in minute.split(",")
    )
    if len(times) > MOST_TIMES:
        return None
    return say("cron.daily" if is_each_day else "cron.at", times=times)


def _minutes(minute: str) -> Said | None:
    if minute in ("*", "*/1"):
        return say("cron.each_minute")
    step = _STEP.fullmatch(minute)
    if step is not None and 60 % int(step[1]) == 0:
        return say("cron.minutes", number=int(step[1]))
    return say("cron.hourly", minute=int(minute)) if minute.isdecimal() else None


def _on(when: Said, day: str, month: str, weekday: str) -> Said | None:
    """The time with its days; None where both dates and weekdays are given."""
    if "*" not in (day, weekday):
        return None
    found: Said | None = when
    if day == "l":
        found = say("cron.last_day", when=when)
    elif day != "*":
        dates = day.split(",")
        found = say("cron.on_dates", when=when, dates=dates) if _LIST.fullmatch(day) else None
    elif weekday != "*":
        found = _weekdays(when, weekday)
    if found is None or month == "*":
        return found
    months = [_number(each, MONTHS, first=1) for each in month.split(",")]
    named = [say(f"month.{each}") for each in months if each is not None and 1 <= each <= 12]
    return say("cron.in_months", when=found, months=named) if len(named) == len(months) else None


def _weekdays(when: Said, weekday: str) -> Said | None:
    first, dash, last = weekday.partition("-")
    if dash:
        ends = _number(first, DAYS, first=0), _number(last, DAYS, first=0)
        if None in ends:
            return None
        begin, end = (say(f"day.{(each or 0) % 7}") for each in ends)
        return say("cron.weekdays", when=when, first=begin, last=end)
    days = [_number(each, DAYS, first=0) for each in weekday.split(",")]
    if None in days:
        return None
    return say("cron.on_days", when=when, days=[say(f"day.{(each or 0) % 7}") for each in days])


def _number(text: str, names: tuple[str, ...], *, first: int) -> int | None:
    """The number of a day or a month, given as a number or by its name."""
    if text in names:
        return names.index(text) + first
    return int(text) if text.isdecimal() and int(text) <= 12 else None

"""Dated parts of a window: "not 2026-11-11", "2026-11-10 20:00 - 2026-11-12 04:00 off"."""

from __future__ import annotations

import re
from bisect import bisect_right
from calendar import month_name, monthrange
from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from windlass.value.calendar.local import DAY_MINUTES, minute_of

FIRST_YEAR, LAST_YEAR = 1970, 2999
WRITE_DATES = 'write dates as "2026-11-11"'

_DATE = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_TIME = r"[0-9]{1,2}:[0-9]{2}"
_SPAN = re.compile(
    rf"(?P<begin>{_DATE})(?:[ T](?P<from>{_TIME}))?"
    rf"(?:-(?:(?P<end>{_DATE})(?:[ T](?P<to>{_TIME}))?|(?P<until>{_TIME})))?"
)
_LOOKS_DATED = re.compile(r"not\b|.*\boff$|[0-9]{4}-[0-9]+-[0-9]|[0-9]+[./][0-9]+", re.IGNORECASE)


class Span(NamedTuple):
    """Local minutes since the year 1; `begin` is included, `end` is not."""

    begin: int
    end: int


class BadDate(ValueError):
    """A date or a time of day cannot be read; the text says what to write instead."""


def is_dated(part: str) -> bool:
    """Whether a part of a window is meant as a date; spaces around dashes are removed already."""
    return _LOOKS_DATED.match(part) is not None


def read_dated(part: str) -> tuple[Span, bool]:
    """The span of local time that a part names, and whether it is off; BadDate if it is wrong."""
    text, is_off = _without_off(part)
    found = _SPAN.fullmatch(text)
    if found is None:
        if is_off and not re.search("[0-9]", text):
            raise BadDate('"not" and "off" need a date, as in "not 2026-11-11"')
        raise BadDate(f'{WRITE_DATES} or "2026-11-10 20:00 - 2026-11-12 04:00"')
    begin = read_date(found["begin"])
    first = minute_of(begin) + _time_of(found["from"], otherwise=0, is_end=False)
    if found["end"] is not None:
        last = minute_of(read_date(found["end"]))
        last += _time_of(found["to"], otherwise=DAY_MINUTES, is_end=True)
    elif found["from"] is None and found["until"] is None:
        last = first + DAY_MINUTES
    elif found["from"] is None or found["until"] is None:
        raise BadDate('give a begin and an end, as in "2026-11-11 09:00-17:00"')
    else:
        last = minute_of(begin) + _time_of(found["until"], otherwise=0, is_end=True)
        # As in the weekly parts: what ends before it begins ends on the next day.
        last += DAY_MINUTES if last < first else 0
    if last == first:
        raise BadDate("it is empty, because it ends when it begins")
    if last < first:
        raise BadDate("it ends before it begins")
    return Span(first, last), is_off


def _without_off(part: str) -> tuple[str, bool]:
    words = part.split()
    is_not, is_off = words[0].lower() == "not", words[-1].lower() == "off"
    if is_not and is_off:
        raise BadDate('write either "not" before it or "off" after it')
    if len(words) == 1 and (is_not or is_off):
        raise BadDate('"not" and "off" need a date, as in "not 2026-11-11"')
    return " ".join(words[is_not : -1 if is_off else None]), is_not or is_off


def read_date(text: str) -> date:
    """The date that a text such as "2026-11-11" names."""
    if not re.fullmatch(_DATE, text):
        raise BadDate(WRITE_DATES)
    year, month, day = (int(number) for number in text.split("-"))
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise BadDate(f"years go from {FIRST_YEAR} to {LAST_YEAR}")
    if not 1 <= month <= 12:
        raise BadDate(f"there is no month {month}; {WRITE_DATES}, with the month before the day")
    days = monthrange(year, month)[1]
    if not 1 <= day <= days:
        raise BadDate(f"{month_name[month]} {year} has {days} days")
    return date(year, month, day)


def read_time(text: str, *, is_end: bool = False) -> int:
    """The minutes since midnight of a text such as "06:00"; an end may be "24:00"."""
    if not re.fullmatch(_TIME, text):
        raise BadDate('write times as "06:00"')
    hour, minute = (int(number) for number in text.split(":"))
    if minute > 59:
        raise BadDate("minutes go from 00 to 59")
    if hour * 60 + minute > DAY_MINUTES:
        raise BadDate("hours go from 00:00 to 24:00")
    if hour == 24 and not is_end:
        raise BadDate("24:00 can only be an end; write 00:00 of the next day")
    return hour * 60 + minute


def _time_of(text: str | None, *, otherwise: int, is_end: bool) -> int:
    return otherwise if text is None else read_time(text, is_end=is_end)


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same times, sorted and joined where they touch."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.begin <= found[-1].end:
            found[-1] = Span(found[-1].begin, max(found[-1].end, span.end))
        else:
            found.append(span)
    return tuple(found)


def span_at(spans: tuple[Span, ...], minute: int) -> Span | None:
    """The span that has this minute."""
    before = bisect_right(spans, minute, key=lambda span: span.begin)
    if before and minute < spans[before - 1].end:
        return spans[before - 1]
    return None


def begin_after(spans: tuple[Span, ...], minute: int) -> int | None:
    """When the next span begins, after this minute."""
    after = bisect_right(spans, minute, key=lambda span: span.begin)
    return spans[after].begin if after < len(spans) else None

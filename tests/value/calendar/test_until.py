"""Moments that people write: the next time of day, dates, durations."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.clock import from_datetime, to_datetime
from windlass.errors import BadInput, PastTime
from windlass.value.calendar.until import parse_until

NOON = datetime(2026, 11, 18, 12, 0, 30, 5, tzinfo=UTC)
HOUR = 3_600_000_000


def until(text, now=NOON):
    return to_datetime(parse_until(text, now=from_datetime(now))).isoformat()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("13:00", "2026-11-18T13:00:00+00:00"),
        ("06:00", "2026-11-19T06:00:00+00:00"),
        (" 6:00  UTC ", "2026-11-19T06:00:00+00:00"),
        ("12:00", "2026-11-19T12:00:00+00:00"),
        ("12:01", "2026-11-18T12:01:00+00:00"),
        ("24:00", "2026-11-19T00:00:00+00:00"),
        ("21:00 Asia/Shanghai", "2026-11-18T13:00:00+00:00"),
        ("2026-11-20", "2026-11-20T00:00:00+00:00"),
        ("2026-11-20 04:00 Europe/Berlin", "2026-11-20T03:00:00+00:00"),
        ("2026-11-20T04:00 Europe/Berlin", "2026-11-20T03:00:00+00:00"),
        ("2026-11-20 Asia/Shanghai", "2026-11-19T16:00:00+00:00"),
        ("2h", "2026-11-18T14:00:30.000005+00:00"),
        ("1h 30m", "2026-11-18T13:30:30.000005+00:00"),
        (timedelta(days=1), "2026-11-19T12:00:30.000005+00:00"),
        (datetime(2026, 11, 19, tzinfo=ZoneInfo("Europe/Berlin")), "2026-11-18T23:00:00+00:00"),
    ],
)
def test_a_text_names_a_moment(text, moment):
    assert until(text) == moment


@pytest.mark.parametrize(
    ("text", "now", "moment"),
    [
        # 02:00 to 03:00 is skipped on 29 March, and shown twice on 25 October.
        ("02:30 Europe/Berlin", datetime(2026, 3, 29, 0, 0, tzinfo=UTC), "2026-03-29T01:00"),
        ("02:00 Europe/Berlin", datetime(2026, 3, 29, 0, 0, tzinfo=UTC), "2026-03-29T01:00"),
        ("03:00 Europe/Berlin", datetime(2026, 3, 29, 0, 0, tzinfo=UTC), "2026-03-29T01:00"),
        ("02:30 Europe/Berlin", datetime(2026, 10, 25, 0, 0, tzinfo=UTC), "2026-10-25T00:30"),
        ("02:30 Europe/Berlin", datetime(2026, 10, 25, 0, 40, tzinfo=UTC), "2026-10-25T01:30"),
        ("2026-03-29 02:30 Europe/Berlin", datetime(2026, 3, 1, tzinfo=UTC), "2026-03-29T01:00"),
        ("2026-10-25 02:30 Europe/Berlin", datetime(2026, 3, 1, tzinfo=UTC), "2026-10-25T00:30"),
    ],
)
def test_clocks_that_change_skip_a_time_or_show_it_twice(text, now, moment):
    assert until(text, now).startswith(moment)


@pytest.mark.parametrize(
    ("given", "cure"),
    [
        ("25:00", "until='25:00' cannot be read; hours go from 00:00 to 24:00"),
        ("6:99", "until='6:99' cannot be read; minutes go from 00 to 59"),
        ("2026-02-30 10:00", "cannot be read; February 2026 has 28 days"),
        ("2026-13-01", "cannot be read; there is no month 13"),
        ("1:2:3", "cannot be read; write times as"),
        ("11.11.2026", "cannot be read; write it as"),
        ("06:00 Asia/Shanghigh", "time zone 'Asia/Shanghigh' is not known"),
        ("06:00 in the morning", "cannot be read; write it as"),
        ("", "cannot be read; write it as"),
        (7, "until=7 is neither a text nor a time"),
        ("-2h", "cannot be read"),
        (datetime(2027, 1, 1), "has no time zone"),  # noqa: DTZ001
    ],
)
def test_what_cannot_be_read_is_refused_with_the_cure(given, cure):
    with pytest.raises(BadInput) as raised:
        until(given)

    assert cure in str(raised.value)


@pytest.mark.parametrize("given", ["2026-11-18 12:00", "2020-01-01", NOON])
def test_a_moment_that_has_passed_is_refused(given):
    with pytest.raises(PastTime, match=r"has passed \(it is 2026-11-18 12:00 UTC\)"):
        until(given)


zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
changes = st.sampled_from(["2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-04"])


@given(
    zones,
    st.integers(0, 23),
    st.integers(0, 59),
    changes,
    st.timedeltas(timedelta(days=-1), timedelta(days=2)),
)
def test_a_time_of_day_is_the_next_minute_that_shows_it(zone, hour, minute, day, by):
    now = datetime.fromisoformat(day).replace(tzinfo=UTC) + by
    start = from_datetime(now)

    moment = parse_until(f"{hour:02}:{minute:02} {zone}", now=start)

    shown = to_datetime(moment).astimezone(ZoneInfo(zone))
    before = to_datetime(moment - 1).astimezone(ZoneInfo(zone))
    is_after_gap = before.utcoffset() != shown.utcoffset() and (shown.hour, shown.minute) != (
        hour,
        minute,
    )
    assert start < moment <= start + 26 * HOUR
    assert is_after_gap or (shown.hour, shown.minute, shown.second) == (hour, minute, 0)
    first = start + 60_000_000
    between = range(first - first % 60_000_000, moment, 60_000_000)
    assert not any(_shows(at, zone, hour, minute) for at in between)


def _shows(at, zone, hour, minute):
    shown = to_datetime(at).astimezone(ZoneInfo(zone))
    return (shown.hour, shown.minute) == (hour, minute)

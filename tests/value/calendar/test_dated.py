"""Windows with dates: days that are off, dated openings, holidays; and when they open."""

import os
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.core.run.working import listening
from tests.value.test_window import (
    MINUTE,
    WEEK,
    ZONES,
    drawn_windows,
    every_minute,
    local,
    moment,
    shows_open,
    text_of,
)
from windlass import Window
from windlass.clock import from_datetime, to_datetime
from windlass.errors import BadWindow
from windlass.value.calendar import holiday
from windlass.value.calendar.window import parse_window

DAY = 24 * 60 * MINUTE
SALE = "01:00-07:00, not 2026-11-11, 2026-11-30 20:00 - 2026-12-01 04:00 off Asia/Shanghai"


def openings(text, since, until):
    window = text if isinstance(text, Window) else parse_window(text)
    found = window.openings(moment(since, window.zone), moment(until, window.zone))
    return [f"{local(a, window.zone)[:16]} {local(b, window.zone)[:16]}" for a, b in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "not 2026-11-11",
            ["2026-11-10T00:00 2026-11-11T00:00", "2026-11-12T00:00 2026-11-14T00:00"],
        ),
        (
            "2026-11-11 off",
            ["2026-11-10T00:00 2026-11-11T00:00", "2026-11-12T00:00 2026-11-14T00:00"],
        ),
        (
            "NOT 2026-11-11 - 2026-11-12",
            ["2026-11-10T00:00 2026-11-11T00:00", "2026-11-13T00:00 2026-11-14T00:00"],
        ),
        (
            "not 2026-11-11 09:00-17:00",
            ["2026-11-10T00:00 2026-11-11T09:00", "2026-11-11T17:00 2026-11-14T00:00"],
        ),
        (
            "2026-11-10 20:00 - 2026-11-12 04:00 off",
            ["2026-11-10T00:00 2026-11-10T20:00", "2026-11-12T04:00 2026-11-14T00:00"],
        ),
        ("2026-11-10 20:00 - 2026-11-12 04:00", ["2026-11-10T20:00 2026-11-12T04:00"]),
        ("2026-11-11", ["2026-11-11T00:00 2026-11-12T00:00"]),
        ("2026-11-11 22:00-02:00", ["2026-11-11T22:00 2026-11-12T02:00"]),
        ("2026-11-11T22:00 - 2026-11-12T02:00", ["2026-11-11T22:00 2026-11-12T02:00"]),
        (
            "2026-11-10 20:00-2026-11-11, 2026-11-12 05:00-06:00",
            ["2026-11-10T20:00 2026-11-12T00:00", "2026-11-12T05:00 2026-11-12T06:00"],
        ),
        (
            "22:00-23:00, 2026-11-11, not 2026-11-11 10:00-24:00",
            [
                "2026-11-10T22:00 2026-11-10T23:00",
                "2026-11-11T00:00 2026-11-11T10:00",
                "2026-11-12T22:00 2026-11-12T23:00",
                "2026-11-13T22:00 2026-11-13T23:00",
            ],
        ),
    ],
)
def test_dates_open_and_close_a_window(text, expected):
    assert openings(text, "2026-11-10", "2026-11-14") == expected


def test_weekly_and_dated_parts_share_the_zone_at_the_end():
    found = openings(SALE, "2026-11-10", "2026-11-13")

    assert found == ["2026-11-10T01:00 2026-11-10T07:00", "2026-11-12T01:00 2026-11-12T07:00"]
    assert openings(SALE, "2026-12-01", "2026-12-02") == ["2026-12-01T04:00 2026-12-01T07:00"]


def test_a_window_with_dates_that_was_read_can_be_read_again():
    assert parse_window(parse_window(SALE).text) == parse_window(SALE) == Window(SALE)


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("not 2026-02-30", "cannot read 'not 2026-02-30'; February 2026 has 28 days"),
        ("not 2026-13-01", 'there is no month 13; write dates as "2026-11-11"'),
        ("2026-00-01 off", "there is no month 0"),
        ("not 2026-11-00", "November 2026 has 30 days"),
        ("not 1812-11-11", "years go from 1970 to 2999"),
        ("2026-11-12 04:00 - 2026-11-10 20:00", "it ends before it begins"),
        ("2026-11-12 04:00 - 2026-11-12 04:00 off", "it is empty"),
        ("2026-11-12 09:00", "give a begin and an end"),
        ("2026-11-12 25:00 - 2026-11-13", "hours go from 00:00 to 24:00"),
        ("2026-11-12 24:00 - 2026-11-13", "24:00 can only be an end"),
        ("2026-11-12 09:75-10:00", "minutes go from 00 to 59"),
        ("not 2026-11-11 off", 'write either "not" before it or "off" after it'),
        ("not Mon", '"not" and "off" need a date, as in "not 2026-11-11"'),
        ("off", '"not" and "off" need a date'),
        ("01:00-07:00, not", "cannot read 'not'"),
        ("11.11.2026", 'write dates as "2026-11-11"'),
        ("not 11/11/2026", 'write dates as "2026-11-11"'),
        ("not 2026-11-11 Asia/Shanghai, Sat", 'write dates as "2026-11-11"'),
    ],
)
def test_a_date_that_cannot_be_read_is_named_with_the_cure(text, cure):
    with pytest.raises(BadWindow) as raised:
        parse_window(text, what="kind 'offer': window")

    assert str(raised.value).startswith("kind 'offer': window: cannot read ")
    assert cure in str(raised.value)


@given(st.text(alphabet="notfMSa0126:-, T", max_size=40))
def test_any_text_with_dates_is_read_or_refused(text):
    with suppress(BadWindow):
        assert parse_window(f"2026-{text}").text


# Never again


def test_a_window_of_past_dates_says_that_it_never_opens_again():
    window = parse_window("2026-11-10 20:00 - 2026-11-12 04:00")

    assert window.opens_at(moment("2026-11-12T03:00")) == moment("2026-11-12T03:00")
    assert window.opens_at(moment("2026-11-12T04:00")) is None
    assert window.open_for(MINUTE, since=moment("2026-11-12T03:59:30")) is None
    assert window.openings(moment("2026-11-12T04:00"), moment("2027-11-12")) == []


def test_a_window_whose_every_day_is_a_holiday_says_so():
    window = Window("Mon-Fri 09:00-17:00", holidays=lambda day: True)

    assert window.opens_at(moment("2026-11-12")) is None
    assert window.open_for(MINUTE, since=moment("2026-11-12")) is None


def test_an_opening_in_a_far_year_is_found():
    window = parse_window("2026-01-01 - 2090-06-30 off, 02:00-03:00 Europe/Berlin")

    assert window.opens_at(moment("2026-11-12")) == moment("2090-07-01T02:00", "Europe/Berlin")
    assert parse_window("2999-12-31").opens_at(moment("2026-11-12")) == moment("2999-12-31")


@pytest.mark.parametrize(
    ("text", "hours", "expected"),
    [
        ("01:00-07:00", 12, "2026-11-11T07:00"),
        ("01:00-07:00, not 2026-11-11", 12, "2026-11-12T07:00"),
        ("01:00-07:00, 2026-11-10 12:00-18:00", 12, "2026-11-10T18:00"),
        ("01:00-07:00, not 2026-12-20", 42 * 6, "2026-12-22T07:00"),
        ("2026-11-10 - 2026-11-11, 2026-11-15", 50, "2026-11-15T02:00"),
    ],
)
def test_open_for_counts_dates(text, hours, expected):
    window = parse_window(text)

    assert window.open_for(hours * 60 * MINUTE, since=moment("2026-11-10")) == moment(expected)


def test_the_share_of_the_time_ahead_knows_the_dates():
    window = parse_window("12:00-24:00, not 2026-11-11 - 2026-11-12")

    assert window.share == 0.5
    week = window.share_between(moment("2026-11-09"), moment("2026-11-16"))
    assert week == pytest.approx(5 / 14)


# The clocks

spans = st.tuples(
    st.sampled_from(["2026-03-28", "2026-10-24", "2026-03-07", "2026-11-01", "2011-12-29"]),
    st.integers(0, 3 * 24 * 60),
    st.integers(1, 3 * 24 * 60),
    st.booleans(),
)


def span_text(span):
    day, after, length, is_off = span
    begin = datetime.fromisoformat(day) + timedelta(minutes=after)
    end = begin + timedelta(minutes=length)
    return f"{begin:%Y-%m-%d %H:%M} - {end:%Y-%m-%d %H:%M}{' off' if is_off else ''}"


def shows_dated(drawn, dated, at):
    """Whether a window is open, told from its texts and the clocks without any arithmetic."""
    shown = f"{to_datetime(at).astimezone(ZoneInfo(drawn[1])):%Y-%m-%d %H:%M}"
    inside = [
        span[3]
        for span in dated
        for begin, end in [span_text(span).removesuffix(" off").split(" - ")]
        if begin <= shown < end
    ]
    if any(inside):
        return False
    return bool(inside) or shows_open(drawn, at)


dated_windows = st.tuples(drawn_windows, st.lists(spans, min_size=1, max_size=3))
near = st.builds(
    lambda day, by: from_datetime(datetime.fromisoformat(day).replace(tzinfo=UTC) + by),
    st.sampled_from(["2026-03-28", "2026-10-24", "2026-03-07", "2026-11-01", "2011-12-29"]),
    st.timedeltas(timedelta(days=-2), timedelta(days=4)),
)


def made(drawn, dated):
    weekly = text_of(drawn).rpartition(" ")[0]
    return parse_window(f"{weekly}, {', '.join(map(span_text, dated))} {drawn[1]}")


@settings(deadline=None)
@given(dated_windows, near)
def test_it_opens_at_an_open_minute_and_at_none_before(drawn_dated, start):
    drawn, dated = drawn_dated
    window = made(drawn, dated)

    opens = window.opens_at(start)

    assert shows_dated(drawn, dated, opens)
    assert not any(shows_dated(drawn, dated, at) for at in every_minute(start, opens))


@settings(deadline=None, max_examples=50)
@given(dated_windows, near)
def test_openings_are_the_open_minutes(drawn_dated, start):
    drawn, dated = drawn_dated
    window, end = made(drawn, dated), start + 3 * DAY

    found = window.openings(start, end)

    for at in range(start, end, 7 * MINUTE):
        is_open = any(opening.begin <= at < opening.end for opening in found)
        assert is_open == shows_dated(drawn, dated, at) == window.is_open(at)


@settings(deadline=None, max_examples=50)
@given(dated_windows, near, st.integers(1, 3 * WEEK))
def test_open_for_is_the_sum_of_the_openings(drawn_dated, start, minutes):
    drawn, dated = drawn_dated
    # Whole weeks are skipped as if clocks never changed.
    window = made((drawn[0], "UTC"), dated)

    ends = window.open_for(minutes * MINUTE, since=start)
    # What is further away is not known so exactly.
    assume(ends - start < 90 * 365 * DAY)

    total = sum(end - begin for begin, end in window.openings(start, ends))
    assert total == minutes * MINUTE
    assert window.is_open(ends - 1)


def test_an_opening_of_a_date_does_not_come_again_each_week():
    window = parse_window("Mon 00:00-00:01, 2026-03-28 00:00 - 2026-03-28 00:01 UTC")
    saturday = moment("2026-03-28", "UTC")

    ends = [window.open_for(minutes * MINUTE, since=saturday) for minutes in (1, 2, 3)]

    mondays = [moment("2026-03-30", "UTC"), moment("2026-04-06", "UTC")]
    assert ends == [each + MINUTE for each in (saturday, *mondays)]


@pytest.mark.parametrize("zone", ZONES)
def test_a_day_that_is_off_is_off_from_midnight_to_midnight(zone):
    window = parse_window(f"not 2026-03-29 {zone}")
    begin, end = moment("2026-03-29", zone), moment("2026-03-30", zone)

    assert window.is_open(begin - 1)
    assert not window.is_open(begin)
    assert not window.is_open(end - 1)
    assert window.is_open(end)


# Holidays


@pytest.fixture
def no_wait(monkeypatch):
    monkeypatch.setattr(holiday, "LOOK_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(holiday, "ASK_AGAIN_SECONDS", 0.0)


def holiday_file(path, text, *, age=0):
    path.write_text(text)
    os.utime(path, ns=(10**18 + age, 10**18 + age))
    return path


def test_a_window_stays_closed_on_the_days_of_a_file(tmp_path):
    path = holiday_file(
        tmp_path / "holidays.txt", "# Germany\n\n2026-12-25  # Christmas\n2026-12-26"
    )
    window = Window("09:00-10:00 Europe/Berlin", holidays=path)

    assert openings(window, "2026-12-24", "2026-12-28") == [
        "2026-12-24T09:00 2026-12-24T10:00",
        "2026-12-27T09:00 2026-12-27T10:00",
    ]
    assert str(window) == "09:00-10:00 Europe/Berlin except holidays.txt"
    assert window.opens_at(moment("2026-12-25")) == moment("2026-12-27T09:00", "Europe/Berlin")


def test_a_file_is_read_again_when_it_changes(tmp_path, no_wait):
    path = holiday_file(tmp_path / "days", "2026-12-25")
    window = Window("09:00-10:00", holidays=str(path))
    assert not window.is_open(moment("2026-12-25T09:30"))

    holiday_file(path, "2026-12-26", age=1)

    assert window.is_open(moment("2026-12-25T09:30"))
    assert not window.is_open(moment("2026-12-26T09:30"))


def test_a_file_that_becomes_wrong_is_told_once_and_the_old_days_count(tmp_path, no_wait):
    path = holiday_file(tmp_path / "days", "2026-12-25")
    window = Window("09:00-10:00", holidays=path)

    with listening("window.holidays_failed") as heard:
        holiday_file(path, "2026-12-25\n25.12.2026", age=1)
        for _ in range(3):
            assert not window.is_open(moment("2026-12-25T09:30"))
        path.unlink()
        assert not window.is_open(moment("2026-12-25T09:30"))

    first, second = (event.fields["error"] for event in heard)
    assert f"{path}, line 2: cannot read '25.12.2026'; write dates as" in first
    assert "No such file" in second


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2026-12-25\n2026-02-30", "line 2: cannot read '2026-02-30'; February 2026 has 28 days"),
        ("Christmas", "line 1: cannot read 'Christmas'; write dates as \"2026-11-11\""),
        (None, "No such file or directory"),
    ],
)
def test_a_file_that_is_wrong_at_the_start_is_refused(tmp_path, text, problem):
    path = tmp_path / "days"
    if text is not None:
        path.write_text(text)

    with pytest.raises(BadWindow) as raised:
        Window("09:00-10:00", holidays=path)

    assert str(path) in str(raised.value)
    assert problem in str(raised.value)


def test_a_function_says_which_days_are_holidays():
    asked = []

    def is_holiday(day):
        asked.append(day)
        return day == date(2026, 12, 25)

    window = Window("09:00-10:00", holidays=is_holiday)

    assert not window.is_open(moment("2026-12-25T09:30"))
    assert window.is_open(moment("2026-12-26T09:30"))
    assert window.is_open(moment("2026-12-26T09:40"))
    assert asked == [date(2026, 12, 25), date(2026, 12, 26)]


def test_a_function_that_raises_keeps_the_window_closed_and_is_told_once(no_wait):
    def is_holiday(day):
        raise ConnectionError("no calendar")

    window = Window("09:00-10:00", holidays=is_holiday)

    with listening("window.holidays_failed") as heard:
        assert not window.is_open(moment("2026-12-25T09:30"))
        assert not window.is_open(moment("2026-12-25T09:31"))

    (event,) = heard
    assert event.fields["error"] == "is_holiday(2026-12-25): ConnectionError: no calendar"


async def not_allowed(day):
    return True


@pytest.mark.parametrize("given", [7, ["2026-12-25"], not_allowed])
def test_holidays_that_are_neither_a_file_nor_a_function_are_refused(given):
    with pytest.raises(BadWindow, match="is neither a file nor a function"):
        Window("09:00-10:00", holidays=given)

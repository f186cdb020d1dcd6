"""The two weeks ahead of a window, day by day."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from windlass.clock import from_datetime
from windlass.operate.switch.ahead import ahead_of
from windlass.value.calendar.window import parse_window

BERLIN = "Europe/Berlin"


def ahead(text, now):
    window = parse_window(text)
    moment = datetime.fromisoformat(now).replace(tzinfo=ZoneInfo(window.zone))
    return ahead_of(window, now=from_datetime(moment))


def hours(day):
    return [(each.begin, each.end) for each in day.open]


def test_a_night_over_midnight_is_in_two_days():
    found = ahead(f"22:00-06:00 {BERLIN}", "2026-11-18T12:30")

    assert found.now == 750
    assert [day.date for day in found.days[:2]] == ["2026-11-18", "2026-11-19"]
    assert len(found.days) == 14
    assert {tuple(hours(day)) for day in found.days} == {((0, 360), (1320, 1440))}


@pytest.mark.parametrize(
    ("day", "text", "expected"),
    [
        # 02:00 to 03:00 is skipped on 29 March, and shown twice on 25 October.
        ("2026-03-29", "00:00-24:00", [(0, 1440)]),
        ("2026-03-29", "01:00-04:00", [(60, 240)]),
        ("2026-03-29", "02:10-02:50", []),
        ("2026-10-25", "00:00-24:00", [(0, 1440)]),
        ("2026-10-25", "01:00-04:00", [(60, 240)]),
        ("2026-10-25", "02:30-02:45", [(150, 165)]),
    ],
)
def test_days_on_which_the_clocks_change_are_drawn_by_what_clocks_show(day, text, expected):
    found = ahead(f"{text} {BERLIN}", f"{day}T12:00")

    assert hours(found.days[0]) == expected


def test_dates_that_are_off_are_closed():
    found = ahead("09:00-17:00, not 2026-11-20 - 2026-11-21", "2026-11-18T12:00")

    assert [day.date for day in found.days if not day.open] == ["2026-11-20", "2026-11-21"]
    assert found.is_open
    assert found.opens_at is None


def test_a_window_that_never_opens_again_has_fourteen_closed_days():
    found = ahead("2026-11-17", "2026-11-18T12:00")

    assert not any(day.open for day in found.days)
    assert (found.is_open, found.opens_at) == (False, None)

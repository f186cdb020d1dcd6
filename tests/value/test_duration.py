"""Durations: read, refused and shown."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import BadDuration
from windlass.value.duration import format_duration, parse_duration


@pytest.mark.parametrize(
    ("given", "microseconds"),
    [
        ("1us", 1),
        ("250ms", 250_000),
        ("30s", 30_000_000),
        ("1.5s", 1_500_000),
        ("0.1s", 100_000),
        ("5m", 300_000_000),
        ("1h30m", 5_400_000_000),
        ("1h 30m", 5_400_000_000),
        (" 2h ", 7_200_000_000),
        ("10d", 864_000_000_000),
        ("1w", 604_800_000_000),
        ("1d2h3m4s5ms6us", 93_784_005_006),
        (timedelta(days=1, microseconds=3), 86_400_000_003),
    ],
)
def test_a_duration_is_whole_microseconds(given, microseconds):
    assert parse_duration(given) == microseconds


@pytest.mark.parametrize(
    "given", ["", "5", "5 minutes", "m", "-5m", "1.5.2s", "1h-30m", "1e3s", "5M", "5m!"]
)
def test_what_is_not_a_duration_is_refused_with_examples(given):
    with pytest.raises(BadDuration) as raised:
        parse_duration(given, what="timeout")

    assert str(raised.value).startswith(f"timeout: cannot read {given!r}")
    assert '"30s"' in str(raised.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (5, "5 is an int"),
        (1.5, "1.5 is a float"),
        (None, "None is a NoneType"),
        (b"5s", "is a bytes"),
    ],
)
def test_other_types_are_refused_by_name(given, said):
    with pytest.raises(BadDuration) as raised:
        parse_duration(given)

    assert said in str(raised.value)


@pytest.mark.parametrize("given", ["0s", timedelta(0), timedelta(seconds=-1), "0.1us"])
def test_nothing_at_all_is_refused_unless_it_is_allowed(given):
    with pytest.raises(BadDuration, match="positive"):
        parse_duration(given)


def test_zero_may_be_allowed_but_never_less():
    assert parse_duration("0s", zero=True) == 0
    with pytest.raises(BadDuration):
        parse_duration(timedelta(microseconds=-1), zero=True)


@pytest.mark.parametrize("given", ["36501d", timedelta(days=36_501), "9" * 400 + "d"])
def test_more_than_a_hundred_years_is_refused(given):
    with pytest.raises(BadDuration, match="longer than 100 years"):
        parse_duration(given)


@pytest.mark.parametrize(
    ("microseconds", "shown"),
    [
        (0, "0us"),
        (999, "999us"),
        (1_000, "1ms"),
        (250_000, "250ms"),
        (1_500_000, "1.5s"),
        (59_000_000, "59s"),
        (90_000_000, "1m30s"),
        (3_600_000_000, "1h"),
        (93_784_005_006, "1d2h"),
    ],
)
def test_people_see_the_two_largest_units(microseconds, shown):
    assert format_duration(microseconds) == shown


@given(st.integers(min_value=1, max_value=10**9))
def test_a_number_of_any_unit_is_read_exactly(number):
    assert parse_duration(f"{number}us") == number
    assert parse_duration(timedelta(microseconds=number)) == number

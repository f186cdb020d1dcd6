"""Rates and the allowance that spends them."""

import pytest

from windlass import BadRate
from windlass.model.rate import Allowance, parse_rate


@pytest.mark.parametrize(
    ("given", "per_second"),
    [("700/s", 700), ("0.5/s", 0.5), ("60/m", 1), ("3600 / h", 1), ("86400/d", 1)],
)
def test_a_rate_is_so_many_a_second(given, per_second):
    assert parse_rate(given) == pytest.approx(per_second)


@pytest.mark.parametrize("given", ["", "700", "700/w", "fast", "-1/s", "1/s/s", 700, None])
def test_what_is_no_rate_is_refused_with_examples(given):
    with pytest.raises(BadRate) as raised:
        parse_rate(given, what="kind 'mail': rate")

    assert str(raised.value).startswith(f"kind 'mail': rate: cannot read {given!r}")
    assert '"700/s"' in str(raised.value)


def test_a_rate_of_nothing_is_refused():
    with pytest.raises(BadRate, match="lets nothing through"):
        parse_rate("0/s")


def test_one_may_start_at_once_and_the_next_when_its_time_has_come():
    allowance = Allowance(10, now=0.0)

    assert allowance.available(0.0) == 1
    allowance.spend(1)
    assert allowance.available(0.05) == 0
    assert allowance.seconds_until_one() == pytest.approx(0.05)
    assert allowance.available(0.1001) == 1


def test_a_pause_is_not_followed_by_a_burst():
    allowance = Allowance(100, now=0.0)

    assert allowance.available(3600.0) == 10


def test_over_time_exactly_the_rate_goes_through():
    allowance = Allowance(50, now=0.0)
    started = 0

    for tick in range(1, 1001):
        now = tick / 100
        count = allowance.available(now)
        allowance.spend(count)
        started += count

    assert 500 <= started <= 502


def test_a_share_of_the_rate_is_a_slower_rate():
    allowance = Allowance(100, now=0.0)
    allowance.spend(1)

    assert allowance.available(0.02, share=0.25) == 0
    assert allowance.seconds_until_one(share=0.25) == pytest.approx(0.02)
    assert allowance.available(0.0401, share=0.25) == 1


def test_a_clock_that_goes_back_takes_nothing_away():
    allowance = Allowance(10, now=5.0)

    assert allowance.available(4.0) == 1

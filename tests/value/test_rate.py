"""Rates, and how all workers share one."""

from bisect import bisect_left
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import BadRate
from windlass.value.rate import (
    CAUTION,
    HORIZON,
    LATE,
    SLICE,
    Grant,
    Pace,
    free_from,
    interval_of,
    parse_rate,
    reserve,
)


@pytest.mark.parametrize(
    ("given", "per_second"),
    [("700/s", 700), ("0.5/s", 0.5), ("60/m", 1), ("3600 / h", 1), ("86400/d", 1)],
)
def test_a_rate_is_a_number_a_second(given, per_second):
    assert parse_rate(given) == pytest.approx(per_second)


@pytest.mark.parametrize("given", ["", "700", "700/w", "fast", "-1/s", "1/s/s", 700, None])
def test_what_is_not_a_rate_is_refused_with_examples(given):
    with pytest.raises(BadRate) as raised:
        parse_rate(given, what="kind 'mail': rate")

    assert str(raised.value).startswith(f"kind 'mail': rate: cannot read {given!r}")
    assert '"700/s"' in str(raised.value)


def test_a_rate_of_nothing_is_refused():
    with pytest.raises(BadRate, match="is too slow"):
        parse_rate("0/s")


def grant(begin=0, starts=10, interval=100_000.0):
    return Grant(begin, starts, interval)


def test_the_first_stretch_begins_now_and_the_next_where_it_ends():
    first = reserve(0, per_second=100, now=5_000_000).grant

    second = reserve(first.end, per_second=100, now=5_000_000).grant

    assert first.begin == 5_000_000
    assert second.begin == first.end


def test_nobody_reserves_beyond_the_horizon():
    assert reserve(1_200_000 + HORIZON, per_second=100, now=1_000_000).grant is None
    assert reserve(900_000 + HORIZON, per_second=100, now=1_000_000).grant is not None


def test_nobody_holds_a_moment_that_is_far_off():
    """Or a worker that is restarted in every interval would never start anything."""
    first = reserve(0, per_second=1 / 3600, now=0)

    assert reserve(first.next_at, per_second=1 / 3600, now=0).grant is None
    assert reserve(first.next_at, per_second=1 / 3600, now=0).next_at == first.next_at
    assert reserve(first.next_at, per_second=1 / 3600, now=first.next_at).grant is not None


def test_a_slow_rate_is_reserved_one_start_at_a_time():
    found = reserve(0, per_second=0.5, now=0).grant

    assert found.starts == 1
    assert found.end == pytest.approx(2_000_000 / CAUTION)


def test_starts_come_one_by_one_as_their_moments_come():
    pace = Pace()
    pace.add(grant(begin=1_000_000))

    assert pace.available(999_999) == 0
    assert pace.available(1_000_000) == 1
    pace.spend(1)
    assert pace.available(1_099_999) == 0
    assert pace.next_at() == 1_100_000
    assert pace.available(1_100_000) == 1


def test_what_is_not_used_in_time_is_lost():
    pace = Pace()
    pace.add(grant(starts=100, interval=10_000.0))

    assert pace.available(500_000) == LATE // 10_000 + 1


def test_a_slow_start_may_be_late_by_half_of_the_interval():
    pace = Pace()
    pace.add(grant(starts=1, interval=2_000_000.0))

    assert pace.available(999_999) == 1
    assert pace.available(1_000_001) == 0


def test_spending_more_than_there_was_is_made_up_for():
    pace = Pace()
    pace.add(grant(starts=5))
    pace.spend(7)

    pace.add(grant(begin=500_000, starts=5))

    assert pace.available(600_000) == 0
    assert pace.available(700_000) == 1


def test_a_pace_asks_for_more_before_it_runs_out():
    pace = Pace()
    assert pace.ask_at() <= 0

    pace.add(grant(starts=10, interval=50_000.0))

    assert pace.ask_at(0.0) == 350_000
    assert pace.ask_at(1.0) == 50_000


def test_moments_are_told_ahead_over_several_grants_and_each_is_spent_once():
    pace = Pace()
    pace.add(grant(begin=0, starts=3, interval=100.0))
    pace.add(grant(begin=1_000, starts=3, interval=100.0))

    first = pace.take(0, until=1_100, most=4)

    assert first == [0, 100, 200, 1_000]
    assert pace.take(0, until=1_100, most=9) == [1_100]
    assert pace.take(0, until=2_000, most=9) == [1_200]


def test_a_moment_that_was_taken_is_nobody_elses_until_it_is_given_back():
    pace = Pace()
    pace.add(grant(begin=0, starts=4, interval=100_000.0))
    first = pace.take(0, until=400_000, most=2)

    others = pace.take(0, until=400_000, most=2)
    pace.give_back(first[1:])

    assert (first, others) == ([0, 100_000], [200_000, 300_000])
    assert pace.next_at() == 100_000
    assert pace.take(0, until=400_000, most=5) == [100_000]
    assert pace.take(0, until=400_000, most=5) == []


def test_a_moment_that_is_given_back_too_late_is_lost():
    pace = Pace()
    pace.add(grant(begin=0, starts=2, interval=100_000.0))
    pace.give_back(pace.take(0, until=100_000, most=2))

    assert pace.take(150_000, until=150_000, most=2) == [100_000]


def test_moments_that_passed_unused_are_not_told():
    pace = Pace()
    pace.add(grant(begin=0, starts=10, interval=100_000.0))

    assert pace.take(500_000, until=650_000, most=9) == [500_000, 600_000]


@given(
    per_second=st.floats(0.2, 5_000),
    workers=st.integers(1, 4),
    looks=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 60_000)), min_size=50, max_size=300),
)
def test_all_workers_together_stay_below_the_rate_over_any_two_seconds(per_second, workers, looks):
    now, next_at = 1_000_000, 0
    paces = [Pace() for _ in range(workers)]
    starts = []

    for who, pause in looks:
        now += pause
        pace = paces[who % workers]
        if now >= pace.ask_at():
            reserved = reserve(next_at, per_second=per_second, now=now, length=pace.length).grant
            if reserved is not None:
                pace.add(reserved)
                next_at = reserved.end
        count = pace.available(now)
        pace.spend(count)
        starts += [now] * count

    most = max(2 * per_second, 1) + 1
    for index, moment in enumerate(starts):
        within = bisect_left(starts, moment + 2_000_000, lo=index) - index
        assert within <= most


def test_a_worker_that_uses_all_of_its_moments_reserves_rarely():
    now, next_at, reservations, started = 1_000_000, 0, 0, 0
    pace = Pace()

    for _ in range(1_000):
        now += 10_000
        if now >= pace.ask_at():
            reservations += 1
            found = reserve(next_at, per_second=50, now=now, length=pace.length)
            pace.add(found.grant)
            next_at = found.next_at
            # Planned ahead: all of them are taken at once.
            started += len(pace.take(now, until=now + HORIZON, most=1_000))

    assert reservations <= 12
    assert started >= 0.93 * 50 * 10


def test_a_worker_that_does_not_need_its_moments_reserves_only_a_quarter_of_a_second():
    pace = Pace()
    pace.add(grant(starts=20, interval=10_000.0))
    taken = pace.take(0, until=HORIZON, most=20)
    assert pace.length > SLICE

    pace.give_back(taken[3:])

    assert pace.length == SLICE


def test_no_moment_is_reserved_beyond_the_horizon():
    found = reserve(700_000, per_second=100, now=0, length=HORIZON).grant

    assert found.moments[0] == 700_000
    assert found.moments[-1] <= HORIZON


def test_a_faster_rate_uses_moments_between_those_that_are_reserved():
    pace = Pace()
    pace.add(grant(begin=0, starts=4, interval=interval_of(5)))
    pace.take(0, until=HORIZON, most=4)

    faster = pace.at(50, now=100_000)

    moments = faster.take(100_000, until=HORIZON, most=100)
    assert len(moments) == pytest.approx(0.95 * 50 * 0.53, abs=2)
    assert min(b - a for a, b in pairwise(moments)) >= interval_of(50) - 1
    assert moments[-1] <= 3 * interval_of(5) + 1


def test_a_slower_rate_keeps_one_moment_for_each_of_its_intervals():
    next_at, kept = 0, []
    for _ in range(40):
        # Four workers take turns, each with its own grants.
        one = Grant(next_at, 5, interval_of(100))
        kept += one.at(7)
        next_at = one.end

    assert len(kept) == pytest.approx(next_at / interval_of(7), abs=1)


def test_the_same_rate_leaves_the_moments_as_they_are():
    one = Grant(1_000_003, 47, interval_of(50))

    assert one.at(50) == one.moments


def test_the_first_free_moment_follows_the_last_reserved_one_at_the_new_rate():
    hour = reserve(0, per_second=1 / 3600, now=0)

    faster = free_from(hour.next_at, before=1 / 3600, after=50)

    assert faster == pytest.approx(hour.grant.begin + interval_of(50), abs=2)


@given(
    rates=st.lists(st.floats(1, 1_000), min_size=1, max_size=5),
    workers=st.integers(1, 4),
    looks=st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 60_000), st.integers(0, 30)),
        min_size=50,
        max_size=300,
    ),
)
def test_no_second_has_more_starts_than_the_rate_however_often_it_changes(rates, workers, looks):
    """All workers learn a change at once here; it is re-planned and not thrown away."""
    now, next_at, reserved_at = 1_000_000, 0, rates[0]
    paces = [Pace() for _ in range(workers)]
    current, changes = rates[0], iter(rates[1:])
    starts = []

    for who, pause, change in looks:
        now += pause
        if change == 0:
            current = next(changes, current)
            paces = [pace.at(current, now) for pace in paces]
        for pace in paces:
            starts += pace.take(now, until=now, most=10**6)
        pace = paces[who % workers]
        if now >= pace.ask_at():
            if reserved_at != current:
                next_at = free_from(next_at, before=reserved_at, after=current)
            found = reserve(next_at, per_second=current, now=now, length=pace.length)
            next_at, reserved_at = found.next_at, current
            if found.grant is not None:
                pace.add(found.grant)

    starts.sort()
    for index, moment in enumerate(starts):
        within = bisect_left(starts, moment + 1_000_000, lo=index) - index
        assert within <= max(rates) + 1


def test_a_worker_that_looks_often_uses_nearly_all_of_the_rate():
    now, next_at, started = 0, 0, 0
    pace = Pace()

    for _ in range(500):
        now += 20_000
        if now >= pace.ask_at():
            reserved = reserve(next_at, per_second=700, now=now, length=pace.length).grant
            pace.add(reserved)
            next_at = reserved.end
        count = pace.available(now)
        pace.spend(count)
        started += count

    assert started >= 0.93 * 700 * 10


@pytest.mark.parametrize("per_second", [700.0, 1.0, 1 / 60])
def test_after_a_step_back_nobody_waits_longer_than_an_interval_and_a_moment(per_second):
    now, hour = 10**15, 3600 * 1_000_000
    before = reserve(0, per_second=per_second, now=now)

    after = reserve(before.next_at, per_second=per_second, now=now - hour)

    interval = 1_000_000 / (per_second * CAUTION)
    assert after.next_at <= now - hour + 2 * (HORIZON + max(SLICE, interval))

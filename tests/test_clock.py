"""Clocks: strictly increasing microseconds, by the database's time or by hand."""

import threading
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tests.wait import eventually
from windlass.clock import SECOND, DatabaseClock, ManualClock, from_datetime, to_datetime


def test_a_manual_clock_stands_still_until_it_is_moved():
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    start = from_datetime(datetime(2026, 1, 1, tzinfo=UTC))

    assert start <= clock.now() <= start + 5
    time.sleep(0.01)
    assert clock.now() <= start + 5
    clock.advance(3600 * SECOND)
    assert 0 <= clock.now() - (start + 3600 * SECOND) <= 5


def test_no_time_is_given_twice():
    clock = ManualClock()

    times = [clock.now() for _ in range(100)]

    assert times == sorted(set(times))


def test_threads_never_get_the_same_time():
    clock, times, lock = ManualClock(), [], threading.Lock()

    def take():
        mine = [clock.now() for _ in range(200)]
        with lock:
            times.extend(mine)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(times)) == 800


def test_reserved_times_are_a_run_that_ends_at_the_present():
    clock = ManualClock()
    before = clock.now()
    clock.advance(SECOND)

    first = clock.reserve(1000)
    after = clock.now()

    assert first > before
    assert after == first + 1000


def test_a_reservation_never_reaches_back_into_times_already_given():
    clock = ManualClock()
    before = clock.now()

    assert clock.reserve(1000) == before + 1


def test_a_database_clock_follows_the_database():
    measured = []

    def measure():
        measured.append(1)
        return 5_000 * SECOND

    clock = DatabaseClock(measure)
    times = [clock.now() for _ in range(50)]

    assert len(measured) == 1
    assert times == sorted(set(times))
    assert 5_000 * SECOND <= times[0] < 5_010 * SECOND


def test_a_database_clock_goes_on_with_real_time():
    clock = DatabaseClock(lambda: 5_000 * SECOND)

    before = clock.now()
    eventually(lambda: clock.now() - before >= 40_000)

    assert 40_000 <= clock.now() - before < 5 * SECOND


def test_a_database_clock_never_goes_back_though_the_database_does():
    answers = iter([5_000 * SECOND, 4_000 * SECOND])
    clock = DatabaseClock(lambda: next(answers))
    before = clock.now()

    clock.synchronise()

    assert clock.now() > before


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 3, 4, 5, 678_901, tzinfo=timezone(timedelta(hours=8))),
        datetime(1900, 5, 5, 1, 2, 3, 4, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ],
)
def test_moments_convert_exactly_both_ways(moment):
    assert to_datetime(from_datetime(moment)) == moment

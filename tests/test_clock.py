"""Clocks: increasing microseconds, by the database's time, which may step, or by hand."""

import threading
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tests.wait import eventually
from windlass import telemetry
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


class Server:
    """A database's clock that a test can step; a slow one answers late."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.off = 0
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    def measure(self) -> int:
        measured = self.time
        self.asked.set()
        assert self.may_answer.wait(10)
        return measured

    @property
    def time(self) -> int:
        return 100_000 * SECOND + self.off + int((time.monotonic() - self._began) * SECOND)


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def events():
    found = []
    stop = telemetry.subscribe(lambda event: found.append((event.name, event.fields)))
    yield found
    stop()


@pytest.mark.parametrize("by", [1, 60, 3600, 86_400, -1, -60, -3600, -86_400])
def test_a_database_clock_follows_a_step_and_tells_of_it_once(server, events, by):
    clock = DatabaseClock(server.measure, name="shop")
    clock.now()

    server.off += by * SECOND
    clock.synchronise()
    clock.synchronise()

    assert abs(clock.now() - server.time) < SECOND // 4
    assert [name for name, _ in events] == ["clock.stepped"]
    assert events[0][1]["database"] == "shop"
    assert events[0][1]["seconds"] == pytest.approx(by, abs=0.25)
    (step,) = clock.pending
    assert step.by / SECOND == pytest.approx(by, abs=0.25)
    clock.recorded(step)
    assert clock.pending == ()


def test_after_a_step_back_no_time_is_given_twice(server):
    clock = DatabaseClock(server.measure)
    clock.reserve(1000)

    server.off -= 3600 * SECOND
    clock.synchronise()
    times = [clock.now() for _ in range(100)]

    assert times == sorted(set(times))


def test_a_clock_that_is_only_read_follows_a_step_back(server, monkeypatch):
    monkeypatch.setattr("windlass.clock.MEASURE_AGAIN_AFTER", 0.01)
    clock = DatabaseClock(server.measure)
    clock.now()

    server.off -= 3600 * SECOND
    eventually(lambda: abs(clock.now() - server.time) < SECOND // 4)

    assert len(clock.pending) == 1


def test_a_small_correction_is_no_step_and_never_goes_back(server, events):
    clock = DatabaseClock(server.measure)
    before = clock.now()

    server.off -= SECOND // 4
    clock.synchronise()

    assert before < clock.now() < before + SECOND
    assert clock.pending == ()
    assert events == []


def test_an_answer_that_is_late_is_no_step(server, events):
    clock = DatabaseClock(server.measure)
    clock.now()

    server.may_answer.clear()
    asking = threading.Thread(target=clock.synchronise)
    asking.start()
    assert server.asked.wait(10)
    # Longer than the smallest step.
    assert not server.may_answer.is_set()
    threading.Event().wait(0.8)
    server.may_answer.set()
    asking.join()
    clock.synchronise()

    assert clock.pending == ()
    assert events == []


def test_an_old_answer_does_not_replace_a_newer_one(server, events):
    clock = DatabaseClock(server.measure)
    clock.now()
    server.asked.clear()
    server.may_answer.clear()
    asking = threading.Thread(target=clock.synchronise)
    asking.start()
    assert server.asked.wait(10)

    # It was asked before the step, and answers after another thread has seen the step.
    server.off += 3600 * SECOND
    clock.synchronise(lambda: server.time)
    server.may_answer.set()
    asking.join()

    assert len(clock.pending) == len(events) == 1
    assert abs(clock.now() - server.time) < SECOND // 4


def test_a_listener_may_ask_for_the_time(server):
    clock, told = DatabaseClock(server.measure), []
    clock.now()
    stop = telemetry.subscribe(lambda _event: told.append(clock.now()))

    server.off += 3600 * SECOND
    clock.synchronise()

    stop()
    assert len(told) == 1


def test_a_manual_clock_never_steps_by_itself():
    clock = ManualClock()

    clock.advance(86_400 * SECOND)

    assert clock.fresh() > 0
    assert clock.pending == ()


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

"""The plan of starts, without a clock: how many runs start, and how late."""

import heapq

import pytest

from tests.core.limit.pace import most_within
from tests.core.run.test_in_flight import claimed, kind
from windlass.clock import SECOND
from windlass.core.run.plan import StartPlan
from windlass.core.run.ready import KindLoad, Run
from windlass.value.rate import LATE, Grant

# A pacer lets up to 45 ms of starts come together.
TICK = 45_000


def planned(load, number, moment):
    run = Run(claimed(number, load.kind.name), load)
    run.start_at = moment
    load.queued += 1
    return run


class Stretch:
    """Runs of one kind that last, and a pacer that looks every 45 ms and when a run ends."""

    def __init__(self, rate, *, limit, milliseconds):
        self.load = KindLoad(kind("z", rate=f"{rate}/s", concurrency=limit), 100)
        self.plan = StartPlan()
        self.moments = Grant(0, 1_000_000, SECOND / rate).moments
        self.lasts = milliseconds * 1_000
        self.ends: list[int] = []
        self.starts: list[tuple[int, int]] = []
        self.number = 0

    def run(self, seconds):
        """Let it run; returns how many started a second."""
        for tick in range(0, seconds * SECOND, TICK):
            self.take_moments(tick)
            while self.ends and self.ends[0] <= tick:
                now = heapq.heappop(self.ends)
                self.load.running -= 1
                if self.plan.is_waiting:
                    self.release(now)
            self.release(tick)
        return len(self.starts) / seconds

    def take_moments(self, now):
        """Plan 100 ms ahead; runs that have no moment come before new ones."""
        while self.moments[0] < now + SECOND // 10:
            moment = self.moments.pop(0)
            if self.load.lapsed:
                self.plan.plan_again(self.load, [moment])
            else:
                self.number += 1
                self.plan.put(planned(self.load, self.number, moment))

    def release(self, now):
        for run in self.plan.release(now, room=100):
            self.starts.append((now, run.start_at))
            self.load.queued -= 1
            self.load.running += 1
            # Short and long ones in turn.
            heapq.heappush(self.ends, now + self.lasts * (4 + len(self.starts) % 3) // 5)


@pytest.mark.parametrize(
    ("rate", "limit", "milliseconds", "expected"),
    [(50, 3, 50, 50), (100, 6, 50, 100), (100, 4, 50, 80), (50, 2, 100, 20), (700, 20, 20, 700)],
)
def test_a_kind_at_its_limit_starts_as_many_as_its_rate_and_its_limit_allow(
    rate, limit, milliseconds, expected
):
    stretch = Stretch(rate, limit=limit, milliseconds=milliseconds)

    assert stretch.run(20) >= expected * 0.95

    assert all(0 <= start - moment <= LATE for start, moment in stretch.starts)
    assert most_within([start / SECOND for start, _ in stretch.starts]) <= rate * (
        2 + LATE / SECOND
    )


def test_runs_start_in_their_order_whichever_moment_was_lost():
    load, plan = KindLoad(kind("z", rate="10/s", concurrency=1), 100), StartPlan()
    for number, moment in ((1, 0), (2, 100_000), (3, 200_000)):
        plan.put(planned(load, number, moment))
    load.running = 1

    assert plan.release(LATE + 1_000, room=9) == []
    assert load.lapsed == 1
    load.running = 0

    assert [run.number for run in plan.release(100_000, room=9)] == [1]
    assert plan.next_at(100_000, 9) == [200_000]


def test_kinds_take_turns_by_their_moments_when_there_is_little_room():
    loads = [KindLoad(kind(name, rate="10/s"), 100) for name in "xy"]
    plan = StartPlan()
    for number, load in enumerate(loads * 2):
        plan.put(planned(load, number, number * 1_000))

    assert [run.kind.name for run in plan.release(5_000, room=3)] == ["x", "y", "x"]
    assert plan.is_waiting


def test_runs_that_are_dropped_leave_their_moments_to_the_others():
    load, plan = KindLoad(kind("z", rate="10/s"), 100), StartPlan()
    for number, moment in ((1, 1_000), (2, 2_000), (3, 3_000)):
        plan.put(planned(load, number, moment))

    assert [run.number for run in plan.drop(lambda run: run.number == 1)] == [1]

    assert plan.next_at(0, 9) == [1_000, 2_000]
    assert (load.planned, load.lapsed) == (2, 0)

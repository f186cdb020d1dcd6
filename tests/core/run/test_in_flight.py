"""What a worker holds: limits, order, and that the first decision about a run wins."""

import time
from dataclasses import replace
from math import inf

import msgspec
import pytest

from windlass.core.run.in_flight import InFlight
from windlass.core.run.known import (
    KEPT_LINGER_SECONDS,
    LINGER_SECONDS,
    MOST_LINGER,
    VISIT_LINGER_SECONDS,
)
from windlass.core.run.ready import MOST_PLANNED, State
from windlass.core.task.kind import make_kind
from windlass.core.task.option import Options
from windlass.source.keys import Keys
from windlass.sweep.engine.range_runner import ItemRun
from windlass.sweep.model import SweepTerms
from windlass.value.bucket import BUCKETS
from windlass.value.outcome import SUCCESS, Failed, Succeeded
from windlass.value.period import HURRIED
from windlass.value.task import Claimed


def kind(name, *, is_async=False, **options):
    def work(): ...

    async def awork(): ...

    return make_kind(awork if is_async else work, Options(name=name, **options))


def claimed(number, name="a", *, priority=0):
    return Claimed(
        id=number,
        kind=name,
        task_key=None,
        priority=priority,
        due_at=number,
        payload="{}",
        attempt=1,
        lost=0,
        started_at=1,
        bucket=0,
        batch=number + 1000,
        worker=1,
    )


def read(number, name="a", **columns):
    """A row that was read and not claimed."""
    return msgspec.structs.replace(claimed(number, name), batch=None, **columns)


def hold_of(*kinds, concurrency=10):
    return InFlight({each.name: each for each in kinds}, concurrency)


def start_next(hold, *, is_async=False):
    """What a runner that has nothing to do gets."""
    return hold.advance(None, None, is_async=is_async)


def start_all(hold, *, is_async=False):
    started = []
    while (run := start_next(hold, is_async=is_async)) is not None:
        started.append(run)
    return started


class Runner:
    """Runs nothing, and notes what it is told to stop."""

    def __init__(self):
        self.stopped = []

    def stop(self, run):
        self.stopped.append(run)


def held(hold):
    return {number: run.task.batch for number, run in hold.running.items()}


def test_runs_start_by_priority_and_then_in_the_order_they_came():
    hold = hold_of(kind("a"), kind("b"))
    hold.add([claimed(1), claimed(2), claimed(3, "b", priority=5), claimed(4, priority=9)])

    started = start_all(hold)

    assert [run.task.id for run in started] == [4, 3, 1, 2]


def test_no_more_start_than_the_worker_has_room_for():
    hold = hold_of(kind("a"), concurrency=2)
    hold.add(claimed(number) for number in range(5))

    first = start_all(hold)
    hold.end(first[0], Succeeded())
    second = start_all(hold)

    assert [run.task.id for run in first] == [0, 1]
    assert [run.task.id for run in second] == [2]


def test_no_more_of_a_kind_start_than_its_limit_and_others_pass_by():
    hold = hold_of(kind("a", concurrency=1), kind("b"))
    hold.add([claimed(1, priority=9), claimed(2, priority=9), claimed(3, "b")])

    started = start_all(hold)

    assert [run.task.id for run in started] == [1, 3]
    hold.end(started[0], Succeeded())
    assert [run.task.id for run in start_all(hold)] == [2]


def test_the_limit_of_the_worker_counts_sync_and_async_together():
    hold = hold_of(kind("a"), kind("b", is_async=True), concurrency=3)
    hold.add([claimed(1), claimed(2), claimed(3, "b"), claimed(4, "b")])

    assert len(start_all(hold)) == 2
    assert len(start_all(hold, is_async=True)) == 1


def test_sync_and_async_runs_are_on_shelves_of_their_own():
    hold = hold_of(kind("a"), kind("b", is_async=True))
    fed = []
    hold._on_queued = fed.append

    hold.add([claimed(1), claimed(2, "b")])

    assert sorted(fed) == [False, True]
    assert [run.task.id for run in start_all(hold, is_async=True)] == [2]
    assert [run.task.id for run in start_all(hold, is_async=False)] == [1]


def test_the_first_outcome_of_a_run_wins():
    hold = hold_of(kind("a"))
    hold.add([claimed(1)])
    (run,) = start_all(hold)

    assert hold.end(run, Succeeded()) is True
    assert hold.end(run, Failed("late", "late")) is False

    (ended,) = hold.take_ended(10)
    assert ended.outcome == Succeeded()


def test_a_runner_hands_in_one_run_and_gets_the_next():
    hold = hold_of(kind("a", concurrency=1))
    hold.add([claimed(1), claimed(2)])
    first = start_next(hold)

    second = hold.advance(first, Succeeded(), is_async=False)
    none = hold.advance(second, None, is_async=False)

    assert (second.task.id, none) == (2, None)
    assert [run.task.id for run in hold.ended.waiting] == [1]
    assert held(hold) == {2: 1002}


def test_a_late_outcome_is_not_noted_and_the_runner_goes_on():
    hold = hold_of(kind("a"))
    hold.add([claimed(1), claimed(2)])
    first = start_next(hold)
    hold.end(first, Failed("time is out", "t"))

    second = hold.advance(first, Succeeded(), is_async=False)

    assert second.task.id == 2
    assert [run.outcome for run in hold.ended.waiting] == [Failed("time is out", "t")]


def test_a_run_that_was_dropped_has_no_outcome_any_more():
    hold = hold_of(kind("a"))
    hold.add([claimed(1)])
    (run,) = start_all(hold)
    run.runner = Runner()

    assert hold.drop([1, 99]) == [run]
    assert hold.end(run, Succeeded()) is False

    assert run.runner.stopped == [run]
    assert run.state is State.GONE
    assert hold.take_ended(10) == []
    assert hold.is_empty


def test_what_was_dropped_makes_room():
    hold = hold_of(kind("a", concurrency=1))
    hold.add([claimed(1), claimed(2)])
    start_all(hold)

    hold.drop([1])

    assert [run.task.id for run in start_all(hold)] == [2]


def test_a_halted_worker_starts_nothing_and_wants_nothing():
    hold = hold_of(kind("a"))
    hold.add([claimed(1)])
    hold.is_halted = True

    assert start_next(hold) is None
    assert hold.capacity.room().kinds == {}


def test_forgetting_what_has_not_begun_leaves_what_runs():
    hold = hold_of(kind("a", concurrency=1), kind("b", is_async=True))
    hold.add([claimed(1), claimed(2), claimed(3, "b")])
    start_next(hold)

    assert hold.drop_queued() == 2

    assert held(hold) == {1: 1001}
    assert start_all(hold) == start_all(hold, is_async=True) == []


def test_giving_up_everything_keeps_outcomes_that_are_not_written():
    hold = hold_of(kind("a"))
    hold.add([claimed(1), claimed(2), claimed(3)])
    first, _ = start_next(hold), start_next(hold)
    hold.end(first, Succeeded())

    hold.drop_all()

    assert held(hold) == {}
    assert [run.task.id for run in hold.ended.waiting] == [1]


def test_a_row_is_known_from_its_claim_until_it_is_written_down():
    hold = hold_of(kind("a"))
    hold.add([claimed(1)])
    known = [1 in hold.rows]
    run = start_next(hold)
    known.append(1 in hold.rows)
    hold.end(run, Succeeded())
    known.append(1 in hold.rows)
    taken = hold.take_ended(10)
    known.append(1 in hold.rows)
    hold.written(taken)

    assert known == [True, True, True, True]
    assert 1 not in hold.rows
    assert 2 not in hold.rows


def test_nothing_is_in_flight_only_when_all_is_written():
    hold = hold_of(kind("a"))
    seen = [hold.is_empty]
    hold.add([claimed(1)])
    seen.append(hold.is_empty)
    run = start_next(hold)
    seen.append(hold.is_empty)
    hold.end(run, Succeeded())
    seen.append(hold.is_empty)
    taken = hold.take_ended(10)
    seen.append(hold.is_empty)
    hold.written(taken)
    seen.append(hold.is_empty)

    assert seen == [True, False, False, False, False, True]


def test_what_could_not_be_written_comes_first_again():
    hold = hold_of(kind("a"))
    hold.add(claimed(number) for number in range(4))
    for run in start_all(hold):
        hold.end(run, Succeeded())
    taken = hold.take_ended(2)

    hold.put_back(taken)

    assert [run.task.id for run in hold.take_ended(10)] == [0, 1, 2, 3]


def test_a_deadline_is_set_when_the_run_begins():
    hold = hold_of(kind("a", timeout="1s"), kind("b"))
    hold.add([claimed(1), claimed(2, "b")])
    limited, endless = start_all(hold)

    assert endless.deadline is None
    assert limited.deadline == pytest.approx(limited.began + 1)
    assert hold.overdue(limited.began + 0.9) == ([], limited.deadline)
    assert hold.overdue(limited.began + 1.1) == ([limited], inf)


def test_the_worker_wants_as_many_of_a_kind_as_can_start_soon():
    hold = hold_of(kind("a", concurrency=3), kind("b"), concurrency=10)

    before = hold.capacity.room()
    hold.add([claimed(1), claimed(2), claimed(3)])
    start_all(hold)
    after = hold.capacity.room()

    assert before.kinds == {"a": 3, "b": 10}
    assert after.kinds == {"b": 7}


def test_rows_of_a_former_id_are_not_queued():
    hold = hold_of(kind("a"))
    hold.owner = claimed(1).worker + 1

    hold.add([claimed(1)])

    assert start_next(hold) is None
    assert hold.is_empty


def test_the_time_of_a_run_is_measured():
    hold = hold_of(kind("a"))
    hold.add([claimed(1)])
    run = start_next(hold)
    time.sleep(0.02)
    hold.end(run, Succeeded())

    assert 20 <= run.milliseconds < 2_000


def test_kinds_of_one_priority_take_turns():
    hold = hold_of(kind("a"), kind("b"), kind("c"), concurrency=100)
    hold.add([claimed(number, "a") for number in range(3)])
    hold.add([claimed(number, "b") for number in range(10, 13)])
    hold.add([claimed(20, "c", priority=5)])

    started = [run.kind.name for run in start_all(hold)]

    assert started == ["c", "a", "b", "a", "b", "a", "b"]


def test_what_has_a_rate_starts_before_what_has_none():
    hold = hold_of(kind("a"), kind("z", rate="10/s"), concurrency=100)
    hold.add([claimed(1, "a"), claimed(2, "z")])

    assert [run.kind.name for run in start_all(hold)] == ["z", "a"]


def test_there_is_no_room_for_more_of_a_kind_with_a_rate_while_some_of_it_wait():
    hold = hold_of(kind("z", rate="10/s"), concurrency=10)
    assert hold.capacity.room().kinds["z"] == MOST_PLANNED

    hold.add([claimed(1, "z")])

    assert "z" not in hold.capacity.room().kinds


def monotonic():
    return time.monotonic_ns() // 1_000


def test_planned_runs_wait_for_their_moments_and_take_no_room_from_other_kinds():
    hold = hold_of(kind("z", rate="10/s"), kind("a"), concurrency=10)
    later = monotonic() + 3_600_000_000

    hold.add([claimed(1, "z"), claimed(2, "z")], starts={1: monotonic(), 2: later})

    assert hold.release_planned(4) == [later]
    assert [run.number for run in hold.queues.syncs.queues[0, False, "z"]] == [1]
    assert hold.capacity.room().kinds["a"] >= 9


def test_a_run_that_cannot_start_at_its_moment_starts_when_another_one_ends():
    hold = hold_of(kind("z", rate="10/s", concurrency=1), concurrency=10)
    hold.loads["z"].late_after = 3_600_000_000
    now = monotonic()
    hold.add([claimed(1, "z"), claimed(2, "z")], starts={1: now, 2: now})
    running = start_next(hold)
    assert start_next(hold) is None

    following = hold.advance(running, SUCCESS, is_async=False)

    assert following.number == 2


def test_a_run_whose_moment_is_lost_needs_another_one():
    hold = hold_of(kind("z", rate="10/s", concurrency=1), concurrency=10)
    load, now = hold.loads["z"], monotonic()
    hold.add([claimed(1, "z"), claimed(2, "z"), claimed(3, "z")], starts={1: now, 2: 0, 3: 0})
    running, plan = start_next(hold), hold.queues.plan

    assert (running.number, load.lapsed, plan.usable(load)) == (1, 2, 0)

    hold.end(running, SUCCESS)
    assert (load.lapsed, plan.usable(load)) == (2, 1)
    assert plan.plan_again(load, [monotonic()]) == 1
    hold.release_planned(4)
    assert start_next(hold).number == 2
    assert load.lapsed == 1


def test_planned_runs_move_with_their_rate_and_rows_without_a_moment_are_read_again():
    hold = hold_of(kind("z", rate="10/s"), concurrency=10)
    later = monotonic() + 3_600_000_000
    hold.add([claimed(number, "z") for number in (1, 2)], starts={1: later, 2: later + 1})
    hold.add([read(3, "z")], starts={3: later + 2})
    load = hold.loads["z"]

    hold.undisturbed(lambda: hold.move_planned(load, [later + 7], apart=False))

    assert hold.release_planned(4) == [later + 7]
    assert (load.queued, load.planned, load.lapsed) == (2, 2, 1)
    assert hold.rows.ids == {1, 2}


def test_moments_that_were_taken_before_a_rate_changed_are_not_used():
    hold = hold_of(kind("z", rate="10/s"), concurrency=10)
    later = monotonic() + 3_600_000_000
    version, hold.plan_version = hold.plan_version, 1

    hold.add([claimed(1, "z"), read(2, "z")], starts={1: later, 2: later}, version=version)

    assert hold.release_planned(4) == []
    assert hold.rows.ids == {1}
    assert hold.loads["z"].lapsed == 1


@pytest.mark.parametrize(
    ("options", "row", "seconds"),
    [
        ({"rate": "10/s"}, {}, LINGER_SECONDS),
        ({"rate": "10/s", "keep": "1d"}, {}, KEPT_LINGER_SECONDS),
        ({"rate": "10/s"}, {"priority": 0}, VISIT_LINGER_SECONDS),
        ({"rate": "10/s"}, {"priority": HURRIED}, 0.0),
        ({"rate": "10/s"}, {"flow_id": 7}, 0.0),
        ({"rate": "10/s"}, {"bucket": BUCKETS + 3}, 0.0),
        ({}, {}, 0.0),
    ],
)
def test_outcomes_of_rated_kinds_wait_for_others_unless_somebody_waits_for_them(
    options, row, seconds
):
    hold = hold_of(kind("z", **options), concurrency=10)
    hold.add([read(1, "z", **row)])
    run = hold.advance(None, None, is_async=False)
    run.is_visit = row.get("priority") is not None

    before = time.monotonic()
    hold.end(run, SUCCESS)

    # Counted from before the end, so that a slow machine cannot make it shorter.
    assert hold.ended.wait_seconds(before) >= seconds
    assert hold.ended.wait_seconds(time.monotonic()) <= seconds


def test_an_outcome_that_must_not_wait_takes_the_others_with_it():
    hold = hold_of(kind("z", rate="10/s"), concurrency=10)
    hold.add([claimed(1, "z"), claimed(2, "z")])
    first = hold.advance(None, None, is_async=False)
    second = hold.advance(None, None, is_async=False)

    hold.end(first, SUCCESS)
    assert hold.ended.wait_seconds(time.monotonic()) > 0
    second.on_finish = [print]
    hold.end(second, SUCCESS)

    assert hold.ended.wait_seconds(time.monotonic()) == 0.0


def test_a_full_group_of_outcomes_does_not_wait():
    hold = hold_of(kind("z", rate="10/s"), concurrency=MOST_LINGER)
    hold.add([claimed(number, "z") for number in range(MOST_LINGER)])
    *most, last = start_all(hold)

    for run in most:
        hold.end(run, SUCCESS)
    assert hold.ended.wait_seconds(time.monotonic()) > 0
    hold.end(last, SUCCESS)

    assert hold.ended.wait_seconds(time.monotonic()) == 0.0


def test_planned_runs_are_dropped_with_the_others():
    hold = hold_of(kind("z", rate="10/s"), concurrency=10)
    later = monotonic() + 3_600_000_000
    hold.add([claimed(1, "z")], starts={1: later})

    assert [task.id for task in hold.take_back("z")] == [1]

    assert hold.is_empty
    assert (hold.loads["z"].queued, hold.loads["z"].planned) == (0, 0)


class Keeper:
    """Takes the outcomes of items, and notes what comes back."""

    def __init__(self):
        self.back = []

    def landed(self, run): ...

    def taken_back(self, run):
        self.back.append(run)


def items(hold, count, keeper, *, worker=1):
    task = msgspec.structs.replace(claimed(7), worker=worker)
    load = hold.loads["a"]
    terms = SweepTerms(Keys(1, 10), ranges=1, redo=None, batch=10)
    sweep = replace(load.kind, face_terms=terms)
    return [ItemRun(task, load, [(n, n)], kind=sweep, keeper=keeper) for n in range(count)]


def test_items_of_a_keeper_that_is_given_up_neither_run_nor_begin():
    hold, lost, other = hold_of(kind("a"), concurrency=1), Keeper(), Keeper()
    hold.add_items(items(hold, 3, lost), version=0)
    hold.add_items(items(hold, 1, other), version=0)
    running, runner = start_next(hold), Runner()
    running.runner = runner

    hold.drop_kept(lost)

    assert (running.state, runner.stopped) == (State.GONE, [running])
    assert [run.keeper for run in start_all(hold)] == [other]
    assert (lost.back, hold.loads["a"].queued, hold.queues.syncs.queued) == ([], 0, 0)


def test_items_of_an_earlier_life_are_not_queued():
    hold, keeper = hold_of(kind("a")), Keeper()
    hold.owner = 2

    hold.add_items(items(hold, 3, keeper, worker=1), version=0)

    assert start_all(hold) == []
    assert hold.loads["a"].queued == 0

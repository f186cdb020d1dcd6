"""Idle workers share the work of a busy one, whatever their concurrency and its length."""

from collections.abc import Iterator
from itertools import count, islice

import pytest

from tests.fault.crew import Crew, check_accounts, ids_of
from tests.wait import eventually
from windlass.operate.ring import operate as ring
from windlass.value.bucket import bucket_of

SECONDS = 60.0
SLOW = pytest.mark.slow


def keys_of_one_bucket() -> Iterator[str]:
    """All of their rows belong to one worker."""
    return (key for key in map(str, count()) if bucket_of(key) == 7)


def start_two(crew: Crew, concurrency: int) -> None:
    crew.start_many(2, "--concurrency", str(concurrency))

    def are_settled() -> bool:
        view = ring.look(crew.jobs.app.database, crew.jobs.app.clock)
        return len(view.members) == 2 and not view.moving

    eventually(are_settled, SECONDS, what="two workers with half of the ring each")


def begun(crew: Crew) -> dict[int, int]:
    """How many tasks each process has begun."""
    pids = [effect.pid for effect in crew.effects.all() if effect.what == "begin"]
    return {process.pid: pids.count(process.pid) for process in crew.processes}


@pytest.mark.parametrize(
    ("concurrency", "of_kind", "seconds", "tasks"),
    [
        (1, None, 0.2, 40),
        (4, 1, 0.2, 40),
        *(pytest.param(*each, marks=SLOW) for each in [(4, None, 0.2, 120), (1, None, 0.01, 400)]),
    ],
)
def test_work_of_one_bucket_is_shared(crew, concurrency, of_kind, seconds, tasks):
    if of_kind is not None:
        crew.jobs.app.set("nap", concurrency=of_kind)
    start_two(crew, concurrency)

    keys = list(islice(keys_of_one_bucket(), tasks))
    calls = [{"seconds": seconds}] * tasks
    ids = ids_of(crew.jobs.nap.enqueue_many(calls, keys=keys))
    crew.wait_done(ids, SECONDS)

    check_accounts(crew, ids)
    assert min(begun(crew).values()) >= tasks / 5


@pytest.mark.parametrize("concurrency", [1, 4])
def test_tasks_that_take_hours_start_on_both_workers(crew, concurrency):
    start_two(crew, concurrency)

    keys = list(islice(keys_of_one_bucket(), 2 * concurrency))
    crew.jobs.nap.enqueue_many([{"seconds": 3_600.0}] * len(keys), keys=keys)

    eventually(
        lambda: list(begun(crew).values()) == [concurrency, concurrency],
        SECONDS,
        what="as many tasks as both workers can run",
    )


def test_a_task_that_comes_while_all_slots_are_busy_starts_on_the_other_worker(crew):
    start_two(crew, 1)
    first, second = islice(keys_of_one_bucket(), 2)
    crew.jobs.nap.using(key=first).enqueue(3_600.0)
    eventually(lambda: sum(begun(crew).values()) == 1, SECONDS, what="a first task")

    crew.jobs.nap.using(key=second).enqueue(3_600.0)

    eventually(lambda: list(begun(crew).values()) == [1, 1], SECONDS, what="a second task")

"""A worker is killed: others take over what it held, and nothing is lost."""

import os
import signal

import pytest

from tests.fault.crew import Crew, check_accounts, ids_of
from tests.server.process import children_of
from tests.wait import eventually

TASKS = 1_500


def enqueue_naps(crew: Crew, count: int, *, seconds: float = 0.05) -> list[int]:
    return ids_of(crew.jobs.nap.enqueue_many([{"seconds": seconds}] * count))


@pytest.mark.mostly("postgresql")
def test_a_killed_worker_loses_nothing_and_others_take_over(crew):
    workers = crew.start_many(3, "--concurrency", "20")
    ids = enqueue_naps(crew, TASKS)
    crew.wait_busy()

    victim = workers[0]
    victim.kill()
    rows = crew.wait_done(ids)

    check_accounts(crew, ids)
    abandoned = [
        event["abandoned"]
        for successor in workers[1:]
        for event in successor.events("worker.marked_dead")
        if event["worker"] == victim.workers[0]
    ]
    assert len(abandoned) == 1
    assert sum(row.lost for row in rows.values()) == abandoned[0]
    begun = crew.effects.count("begin")
    assert {number for number in rows if begun[number] > 1}
    # A run that ends with its worker before it is written down is not counted.
    assert {number for number, row in rows.items() if begun[number] > row.attempt + 1} == set()


LANES = 12
ROWS_OF_A_LANE = 25


@pytest.mark.mostly("postgresql")
def test_when_a_worker_is_killed_lanes_keep_their_order(crew):
    workers = crew.start_many(3, "--concurrency", "20")
    calls = [
        {"seconds": 0.01 if row % 5 else 0.4, "lane": f"lane-{lane}"}
        for row in range(ROWS_OF_A_LANE)
        for lane in range(LANES)
    ]
    ids = ids_of(crew.jobs.queued.enqueue_many(calls))
    crew.wait_busy()

    workers[0].kill()
    crew.wait_done(ids)

    effects = crew.effects.all()
    for lane in range(LANES):
        rows = ids[lane::LANES]
        ended = [effect.task_id for effect in effects if effect.what == "end"]
        order = [number for number in dict.fromkeys(ended) if number in set(rows)]
        assert order == rows
        begun = [(effect.task_id, effect.what) for effect in effects if effect.task_id in set(rows)]
        # A row begins again only if its worker died, and nothing of its lane began meanwhile.
        places = [rows.index(number) for number, what in begun if what == "begin"]
        assert places == sorted(places)


CHAINED_ROWS = 150


@pytest.mark.mostly("postgresql")
def test_when_a_worker_is_killed_in_a_chain_its_rows_are_repeated_in_order(crew):
    crew.start_many(2, "--concurrency", "20")
    calls = [
        {"lane": f"lane-{lane}", "is_last": row == CHAINED_ROWS // 2}
        for row in range(CHAINED_ROWS)
        for lane in range(LANES)
    ]
    ids = ids_of(crew.jobs.brisk.enqueue_many(calls))
    crew.wait_done(ids)

    (dead,) = [process.pid for process in crew.processes if not process.is_running]
    begun = [effect for effect in crew.effects.all() if effect.what == "begin"]
    repeated = []
    for lane in range(LANES):
        places = {number: place for place, number in enumerate(ids[lane::LANES])}
        of_lane = [effect for effect in begun if effect.task_id in places]
        by_dead = [places[effect.task_id] for effect in of_lane if effect.pid == dead]
        by_other = [places[effect.task_id] for effect in of_lane if effect.pid != dead]
        # Each of them had the rows in order, and none twice.
        assert by_dead == sorted(set(by_dead))
        assert by_other == sorted(set(by_other))
        again = sorted(set(by_dead) & set(by_other))
        # What is repeated is the end of what the dead one had begun.
        assert again == by_dead[len(by_dead) - len(again) :]
        repeated.append(len(again))
    # Without chains, it is one row of a lane at most.
    assert max(repeated) > 1


@pytest.mark.slow
def test_a_whole_crew_that_was_killed_is_replaced_without_loss(crew):
    first = crew.start_many(2, "--concurrency", "20")
    ids = enqueue_naps(crew, TASKS // 2)
    crew.wait_busy()

    for process in first:
        process.kill()
    crew.start("--concurrency", "20")
    crew.wait_done(ids)

    check_accounts(crew, ids)


def test_a_killed_child_is_started_again_by_its_supervisor(postgresql_crew):
    crew = postgresql_crew
    supervisor = crew.start("--processes", "3", joined=False)
    eventually(lambda: len(supervisor.events("worker.joined")) == 3, 20.0)
    ids = enqueue_naps(crew, TASKS)
    eventually(lambda: crew.done() > TASKS // 10, 20.0)

    before = children_of(supervisor.pid)
    os.kill(before[0], signal.SIGKILL)

    eventually(lambda: len(supervisor.events("worker.joined")) == 4, 20.0)
    assert len(children_of(supervisor.pid)) == 3
    assert before[0] not in children_of(supervisor.pid)
    crew.wait_done(ids)
    check_accounts(crew, ids)
    assert supervisor.terminate() == 0


def test_children_leave_when_their_supervisor_is_killed(postgresql_crew):
    crew = postgresql_crew
    supervisor = crew.start("--processes", "3", joined=False)
    eventually(lambda: len(supervisor.events("worker.joined")) == 3, 20.0)
    children = children_of(supervisor.pid)

    supervisor.kill()

    eventually(lambda: not any(map(is_there, children)), 10.0, what="children that leave")
    assert set(crew.left().values()) == {"stopped"}


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

"""SIGTERM: what runs may finish, the rest is handed back, and no attempt is counted."""

import signal
import time

import pytest

from tests.fault.crew import check_accounts, ids_of
from tests.server.process import children_of
from tests.wait import eventually
from windlass.value.status import Status


@pytest.mark.mostly("postgresql")
def test_a_worker_that_is_asked_to_stop_under_load_runs_nothing_twice(crew):
    leaver = crew.start("--concurrency", "20")
    ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.05}] * 1_000))
    crew.wait_busy(leaver)

    code = leaver.terminate()
    between = crew.rows(ids)
    crew.start("--concurrency", "50")
    rows = crew.wait_done(ids)

    assert code == 0
    assert {row.status for row in between.values()} == {Status.WAITING, Status.SUCCEEDED}
    assert {row.attempt for row in between.values() if row.status is Status.WAITING} == {0}
    assert {(row.attempt, row.lost) for row in rows.values()} == {(1, 0)}
    assert crew.effects.count("begin") == crew.effects.count("end") == dict.fromkeys(ids, 1)
    assert crew.left()[leaver.workers[0]] == "stopped"
    assert leaver.events("database.failed") == []


@pytest.mark.mostly("sqlite")
def test_what_outlives_the_grace_is_handed_back_without_counting(crew_of):
    crew = crew_of(grace="500ms")
    leaver = crew.start("--concurrency", "10")
    naps = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 30.0}] * 3))
    blocks = ids_of(crew.jobs.block.enqueue_many([{"seconds": 30.0}] * 2))
    eventually(lambda: crew.effects.count("begin").total() == 5)

    began = time.monotonic()
    code = leaver.terminate()
    took = time.monotonic() - began

    rows = crew.rows(naps + blocks)
    assert code == 0
    assert 0.4 < took < 5.0
    assert {(row.status, row.attempt, row.lost, row.batch) for row in rows.values()} == {
        (Status.WAITING, 0, 0, None)
    }
    assert crew.effects.count("stopped") == dict.fromkeys(naps, 1)


@pytest.mark.mostly("sqlite")
def test_a_second_sigterm_stops_at_once(crew_of):
    crew = crew_of(grace="1m")
    leaver = crew.start("--concurrency", "10")
    ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 60.0}] * 3))
    eventually(lambda: crew.effects.count("begin").total() == 3)
    leaver.signal(signal.SIGTERM)
    eventually(lambda: leaver.events("worker.stopping"))
    assert leaver.is_running

    began = time.monotonic()
    code = leaver.terminate()

    assert code == 0
    assert time.monotonic() - began < 5.0
    assert {(row.status, row.attempt) for row in crew.rows(ids).values()} == {(Status.WAITING, 0)}


def test_a_supervisor_that_is_asked_to_stop_takes_its_children_along(postgresql_crew):
    crew = postgresql_crew
    supervisor = crew.start("--processes", "2", "--concurrency", "10", joined=False)
    eventually(lambda: len(supervisor.events("worker.joined")) == 2, 20.0)
    ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.05}] * 600))
    eventually(lambda: crew.done() > 20)

    code = supervisor.terminate()
    crew.start()
    crew.wait_done(ids)

    assert code == 0
    assert children_of(supervisor.pid) == []
    assert crew.effects.count("begin") == dict.fromkeys(ids, 1)
    check_accounts(crew, ids)


def test_workers_come_and_go_under_load_and_nothing_runs_twice(sqlite_crew):
    crew = sqlite_crew
    ids = []
    stayer = crew.start("--concurrency", "5")

    for _ in range(3):
        goer = crew.start("--concurrency", "5")
        ids += ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.02}] * 700))
        crew.wait_busy(goer)
        assert goer.terminate() == 0
    stayer.signal(signal.SIGTERM)
    crew.start("--concurrency", "50")
    rows = crew.wait_done(ids)

    assert {(row.attempt, row.lost) for row in rows.values()} == {(1, 0)}
    assert crew.effects.count("begin") == dict.fromkeys(ids, 1)

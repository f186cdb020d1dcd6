"""A worker is stopped for longer than its lease, and goes on as if nothing had happened."""

import pytest
from sqlalchemy import update

from tests.core.ring import silent
from tests.fault.crew import check_accounts, ids_of
from tests.wait import eventually
from windlass.app import FACES
from windlass.database.schema import worker
from windlass.value.status import Status


@pytest.mark.mostly("mariadb")
def test_a_worker_that_wakes_up_after_it_was_marked_dead_changes_nothing(crew):
    sleeper = crew.start("--concurrency", "10")
    ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 2.0}] * 10))
    eventually(lambda: len(crew.effects.count("begin")) == 10)
    crew.wait_written_down(10)
    sleeper.pause()
    successor = crew.start("--concurrency", "10")
    inherited = crew.wait_done(ids)

    sleeper.resume()
    eventually(lambda: sleeper.has_joined(2), what="the sleeper joined anew")

    assert {row.lost for row in inherited.values()} == {1}
    assert crew.rows(ids) == inherited
    check_accounts(crew, ids)
    assert crew.left()[sleeper.workers[0]] == "it missed its heartbeat"
    successor.kill()
    more = ids_of(crew.jobs.quick.enqueue_many([{"number": 1}] * 20))
    crew.wait_done(more)
    assert {effect.pid for effect in crew.effects.all() if effect.task_id in more} == {sleeper.pid}


def test_a_worker_that_is_stopped_under_load_blocks_nobody_and_loses_nothing(server_crew):
    # On SQLite one that is stopped inside a transaction blocks all others, and nothing can help.
    crew = server_crew
    sleeper, successor = crew.start_many(2, "--concurrency", "20")
    ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.03}] * 1_500))
    crew.wait_busy()
    sleeper.pause()
    inherited = crew.wait_done(ids, 40.0)

    sleeper.resume()
    eventually(lambda: sleeper.has_joined(2), what="the sleeper joined anew")

    assert crew.rows(ids) == inherited
    check_accounts(crew, ids, slept=[sleeper.pid])
    assert successor.events("worker.lost") == []


def test_a_pause_shorter_than_the_lease_costs_nobody_anything(postgresql_crew):
    crew = postgresql_crew
    sleeper, other = crew.start_many(2, "--concurrency", "10")
    ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.03}] * 600))
    crew.wait_busy()

    sleeper.pause()
    done = crew.done()
    eventually(lambda: crew.done() > min(done + 50, 599))
    sleeper.resume()
    rows = crew.wait_done(ids)

    assert {row.attempt for row in rows.values()} == {1}
    assert crew.effects.count("begin") == dict.fromkeys(ids, 1)
    assert sleeper.events("worker.lost") == other.events("worker.lost") == []


@pytest.mark.mostly("mariadb")
def test_a_worker_marked_dead_while_it_runs_stops_what_it_runs_and_joins_anew(crew):
    process = crew.start("--concurrency", "10")
    ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 3.0}] * 5))
    eventually(lambda: len(crew.effects.count("begin")) == 5)
    crew.wait_written_down(5)

    mark_dead(crew, process.workers[0])

    eventually(lambda: crew.effects.count("stopped").total() == 5, what="handlers that stop")
    eventually(lambda: process.has_joined(2))
    rows = crew.wait_done(ids)
    assert {(row.attempt, row.lost) for row in rows.values()} == {(2, 1)}
    assert {row.worker for row in rows.values()} == {process.workers[1]}
    assert crew.effects.count("end") == dict.fromkeys(ids, 1)
    check_accounts(crew, ids)


def test_the_outcome_of_a_sync_handler_that_outlives_its_worker_is_refused(postgresql_crew):
    crew = postgresql_crew
    process = crew.start("--concurrency", "4")
    (number,) = ids_of([crew.jobs.block.enqueue(3.0)])
    eventually(lambda: crew.effects.count("begin")[number] == 1)

    mark_dead(crew, process.workers[0])
    eventually(lambda: process.has_joined(2))
    eventually(lambda: crew.effects.count("begin")[number] == 2, what="the second run")
    eventually(lambda: crew.effects.count("end")[number] == 1, what="the first run's end")

    # The thread of the first run has ended, the second is still at it: its row must not know.
    assert crew.rows()[number].status is Status.RUNNING
    crew.wait_done([number])
    check_accounts(crew, [number])


def mark_dead(crew, number: int) -> None:
    """Mark a worker dead behind its back, as another worker would that saw no sign of life."""
    database = crew.jobs.app.database
    lapse = update(worker).where(worker.c.id == number).values(lease_until=0)

    def mark() -> bool:
        database.write(lambda connection: connection.execute(lapse))
        now = crew.jobs.app.clock.now()
        return silent.mark_dead(database, FACES, number=number, now=now, why="a test") is not None

    eventually(mark, what="a worker that is marked dead")

"""Handlers that block: a thread for ever, or the event loop for longer than a lease."""

import pytest

from tests.fault.crew import check_accounts, ids_of
from tests.wait import eventually
from windlass.value.status import Status


@pytest.mark.mostly("sqlite")
def test_a_sync_handler_that_blocks_forever_times_out_and_its_thread_is_given_up(crew):
    worker = crew.start("--concurrency", "2")
    stuck = ids_of(crew.jobs.stuck.enqueue_many([{}] * 4))
    others = ids_of(crew.jobs.block.enqueue_many([{"seconds": 0.01}] * 20))

    crew.wait_done(others)
    eventually(lambda: {crew.rows()[number].status for number in stuck} == {Status.FAILED})

    assert {crew.rows()[number].attempt for number in stuck} == {1}
    assert all("TimeoutError" in crew.rows()[number].remark for number in stuck)
    assert [event["threads"] for event in worker.events("task.abandoned")] == [1, 2, 3, 4]
    assert worker.terminate() == 0


@pytest.mark.mostly("mariadb")
def test_a_handler_that_blocks_the_event_loop_keeps_its_lease(crew):
    worker, other = crew.start_many(2, "--concurrency", "5")
    hogs = ids_of([crew.jobs.hog.enqueue(3.0)])

    rows = crew.wait_done(hogs)

    assert {(row.attempt, row.lost) for row in rows.values()} == {(1, 0)}
    check_accounts(crew, hogs)
    for process in (worker, other):
        assert process.events("worker.lost") == process.events("worker.marked_dead") == []


@pytest.mark.mostly("postgresql")
def test_a_run_longer_than_the_lease_keeps_its_claim(crew_of):
    crew = crew_of(lease="2s", dead_after="2s")
    crew.start_many(2, "--concurrency", "5")
    long = ids_of([crew.jobs.nap.enqueue(3.5), crew.jobs.block.enqueue(3.5)])

    rows = crew.wait_done(long)

    assert {(row.attempt, row.lost) for row in rows.values()} == {(1, 0)}
    assert crew.effects.count("begin") == dict.fromkeys(long, 1)

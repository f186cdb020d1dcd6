"""The database server is killed and comes back, with workers and enqueuers at work."""

import threading
import time

import pytest

from tests.fault.crew import Crew, check_accounts, ids_of
from tests.wait import eventually
from windlass.errors import DatabaseUnavailable
from windlass.value.status import Status

SHORT, LONG = 0.0, 4.0


@pytest.mark.parametrize(
    "outage",
    [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.slow)],
)
def test_a_killed_server_that_comes_back_costs_no_task_and_no_worker(
    server_site, server_crew, outage
):
    crew = server_crew
    workers = crew.start_many(2, "--concurrency", "20")
    ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.05}] * 1_500))
    crew.wait_busy()

    server_site.server.kill()
    # Longer than dead_after, so that every lease runs out while nobody can renew.
    time.sleep(outage)
    server_site.server.start()
    rows = crew.wait_done(ids, 60.0)

    assert all(worker.is_running for worker in workers)
    assert {row.lost for row in rows.values()} == {0}
    check_accounts(crew, ids)
    assert sum(len(worker.events("worker.marked_dead")) for worker in workers) == 0


@pytest.mark.slow
def test_a_worker_that_dies_during_an_outage_is_still_found_dead(server_site, server_crew):
    crew = server_crew
    victim, successor = crew.start_many(2, "--concurrency", "10")
    ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 1.0}] * 20))
    eventually(lambda: len(crew.effects.count("begin")) == 20)

    server_site.server.kill()
    victim.kill()
    server_site.server.start()
    rows = crew.wait_done(ids, 60.0)

    check_accounts(crew, ids)
    assert {row.lost for row in rows.values()} <= {0, 1}
    assert [event["worker"] for event in successor.events("worker.marked_dead")] == victim.workers


def test_what_was_acknowledged_exists_exactly_once_after_restarts(server_site, server_crew):
    crew = server_crew
    enqueuer = Enqueuer(crew)
    enqueuer.start()

    for round_ in (1, 2):
        eventually(lambda round_=round_: len(enqueuer.acknowledged) > 300 * round_, 30.0)
        server_site.server.kill()
        server_site.server.start()
    before = len(enqueuer.acknowledged)
    eventually(lambda: len(enqueuer.acknowledged) > before + 100, 30.0)
    enqueuer.stop()

    rows = crew.rows()
    assert set(enqueuer.acknowledged) <= set(rows)
    assert len(set(enqueuer.acknowledged)) == len(enqueuer.acknowledged)
    # What was not acknowledged may exist, but only for calls that raised.
    assert len(rows) - len(enqueuer.acknowledged) <= enqueuer.raised
    assert {row.status for row in rows.values()} == {Status.WAITING}


def test_everything_enqueued_while_the_server_restarts_is_done(server_site, server_crew):
    crew = server_crew
    worker = crew.start("--concurrency", "20")
    enqueuer = Enqueuer(crew)
    enqueuer.start()
    eventually(lambda: crew.done() > 100, 30.0)

    server_site.server.kill()
    server_site.server.start()
    before = len(enqueuer.acknowledged)
    eventually(lambda: len(enqueuer.acknowledged) > before + 50, 30.0)
    enqueuer.stop()

    rows = crew.wait_done(enqueuer.acknowledged)
    assert {row.lost for row in rows.values()} == {0}
    assert worker.is_running
    check_accounts(crew, enqueuer.acknowledged)


class Enqueuer(threading.Thread):
    """Enqueues one task after the other until it is stopped, and remembers what it was told."""

    def __init__(self, crew: Crew) -> None:
        super().__init__(daemon=True)
        self._crew = crew
        self._stopping = False
        self.acknowledged: list[int] = []
        self.raised = 0

    def run(self) -> None:
        number = 0
        while not self._stopping:
            number += 1
            try:
                self.acknowledged.append(self._crew.jobs.quick.enqueue(number).id)
            except DatabaseUnavailable:
                self.raised += 1

    def stop(self) -> None:
        self._stopping = True
        self.join(30.0)
        assert not self.is_alive()

"""The network between a worker and its database stalls, is cut, or heals."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fault.crew import check_accounts, ids_of
from tests.fault.jobs import Jobs
from tests.server.relay import Relay
from tests.wait import eventually
from windlass.value.status import Status


@pytest.fixture
def relay(server_site) -> Iterator[Relay]:
    with Relay(server_site.server.port) as relay:
        yield relay


def test_a_worker_that_hears_nothing_stops_what_it_runs_and_comes_back(server_crew, relay):
    crew = server_crew
    cut_off = crew.start("--concurrency", "10", url=relay.url(crew.url))
    ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 30.0}] * 3))
    eventually(lambda: crew.effects.count("begin").total() == 3)

    relay.stall()

    eventually(lambda: crew.effects.count("stopped").total() == 3, what="handlers that stop")
    assert cut_off.is_running
    relay.heal()
    eventually(lambda: cut_off.has_joined(2), 30.0, what="a worker that comes back")
    eventually(lambda: crew.effects.count("begin").total() == 6, 30.0, what="the second runs")
    crew.wait_written_down(3)
    rows = crew.rows(ids)
    assert {(row.status, row.attempt - row.lost) for row in rows.values()} == {(Status.RUNNING, 1)}


@pytest.mark.parametrize("how", ["stall", pytest.param("refuse", marks=pytest.mark.slow)])
def test_the_work_of_a_worker_that_is_cut_off_is_taken_over(server_crew, relay, how):
    crew = server_crew
    cut_off = crew.start("--concurrency", "20", url=relay.url(crew.url))
    successor = crew.start("--concurrency", "20")
    ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.05}] * 800))
    crew.wait_busy()

    getattr(relay, how)()
    inherited = crew.wait_done(ids)
    relay.heal()
    eventually(lambda: cut_off.has_joined(2), 30.0, what="a worker that comes back")

    assert crew.rows(ids) == inherited
    check_accounts(crew, ids)
    assert successor.events("worker.lost") == []
    begun = crew.effects.count("begin")
    # A run that ends with its worker before it is written down is not counted.
    assert {number for number, row in inherited.items() if begun[number] > row.attempt + 1} == set()


@pytest.mark.slow
def test_connections_that_are_reset_now_and_then_cost_no_attempt(server_crew, relay):
    crew = server_crew
    worker = crew.start("--concurrency", "10", url=relay.url(crew.url))
    ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.03}] * 600))

    for tenth in range(1, 8):
        eventually(lambda tenth=tenth: crew.done() >= 60 * tenth, 20.0)
        relay.cut()
    rows = crew.wait_done(ids)

    # A claim whose answer was lost is handed back uncounted; nobody died.
    assert {(row.attempt, row.lost) for row in rows.values()} == {(1, 0)}
    assert crew.effects.count("end") == dict.fromkeys(ids, 1)
    assert worker.events("worker.lost") == []


@pytest.mark.parametrize("at", [b"insert into windlass_task", b"commit"], ids=["insert", "commit"])
def test_an_enqueue_whose_answer_was_lost_exists_exactly_once(server_crew, relay, at):
    crew = server_crew
    far = Jobs(relay.url(crew.url), crew.folder / "far")
    ids = [far.quick.enqueue(0).id]

    for number in range(1, 11):
        relay.lose_answer(at)
        ids.append(far.quick.enqueue(number).id)
        ids += ids_of(far.quick.enqueue_many([{"number": number}] * 2))

    assert sorted(crew.rows()) == sorted(ids)
    far.app.close()
    # Where an insert is a transaction by itself, nobody says commit.
    assert relay.lost > 0 or at == b"commit"


def test_an_enqueue_whose_task_ran_before_the_lost_answer_runs_once(server_crew, relay):
    crew = server_crew
    crew.start("--concurrency", "2")
    far = Jobs(relay.url(crew.url), crew.folder / "far")
    ids = [far.brief.enqueue(0).id]

    for number in range(10**6, 10**6 + 10):
        # On PostgreSQL one statement is the whole transaction; its arguments tell which.
        is_alone = crew.url.startswith("postgresql")
        at = str(number).encode() if is_alone else b"\x03commit"
        relay.lose_answer_and_refuse(at)
        with ThreadPoolExecutor(1) as thread:
            made = thread.submit(far.brief.enqueue, number)
            eventually(lambda: relay.lost == len(ids), what="an answer that is lost")
            eventually(lambda: not crew.rows(), what="a task that ran and was deleted")
            relay.heal()
            ids.append(made.result().id)

    eventually(lambda: not crew.rows(), what="all tasks")
    assert crew.effects.count("end") == dict.fromkeys(ids, 1)
    far.app.close()

"""Processes that claim at the same time never take the same row."""

import multiprocessing
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import pytest
from sqlalchemy import select

from tests.core.fetch import claimer
from tests.core.fetch.manual_worker import Hand
from tests.core.ring.silent import mark_dead
from windlass.app import FACES
from windlass.core.task.declare import Task
from windlass.database.schema import task
from windlass.value.status import Status

ROWS = 400


@pytest.fixture(scope="module")
def forks():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.core.fetch.claimer"])
    return context


@pytest.mark.parametrize(
    "processes",
    [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(4, marks=pytest.mark.slow), 8],
)
def test_concurrent_claims_never_share_a_row(database_url, forks, processes):
    app = claimer.make_app(database_url)
    (prey,) = app.registry.kinds
    enqueue(app, prey)

    taken = race(forks, claimer.claim_all, database_url, processes)

    check(app, taken)
    app.close()


@pytest.mark.parametrize("processes", [4])
def test_concurrent_rescues_never_share_a_row(database_url, forks, processes):
    app = claimer.make_app(database_url)
    (prey,) = app.registry.kinds
    enqueue(app, prey)
    victim = Hand(app)
    assert len(victim.claim(ROWS)) == ROWS
    die_by_real_time(app, victim)

    taken = race(forks, claimer.rescue_all, database_url, processes)

    rows = check(app, taken)
    assert {row.lost for row in rows.values()} == {1}
    app.close()


def enqueue(app, name: str) -> None:
    Task(app, app.registry.get(name)).enqueue_many([{}] * ROWS)


def die_by_real_time(app, hand: Hand) -> None:
    long_after = app.clock.now() + 60_000_000
    abandoned = mark_dead(app.database, FACES, number=hand.id, now=long_after, why="silent")
    assert abandoned == ROWS
    query = task.update().values(due_at=app.clock.now())
    app.database.write(lambda connection: connection.execute(query))


def race(context, work: Callable[..., list], url: str, processes: int) -> list:
    with (
        context.Manager() as manager,
        ProcessPoolExecutor(processes, mp_context=context) as pool,
    ):
        start = manager.Barrier(processes)
        answers = [pool.submit(work, url, start) for _ in range(processes)]
        return [taken for answer in answers for taken in answer.result(60)]


def check(app, taken: list[tuple[int, int, int]]) -> dict:
    """Each row was given to one process, and the row says to which."""
    twice = {number: n for number, n in Counter(row[0] for row in taken).items() if n > 1}
    assert twice == {}
    rows = app.database.read(lambda connection: connection.execute(select(task)).all())
    assert len(taken) == len(rows) == ROWS
    assert {row.status for row in rows} == {Status.RUNNING}
    assert {(row.id, row.worker, row.batch) for row in rows} == set(taken)
    assert {row.attempt - row.lost for row in rows} == {1}
    return {row.id: row for row in rows}

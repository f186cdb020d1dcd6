"""What a death is counted against: rows that ran, and as few others as can be."""

import pytest

from tests.core.fetch.dead import Doomed
from tests.core.ring.peer import Mate, die, settle
from tests.table import tasks

pytestmark = [pytest.mark.mostly("sqlite"), pytest.mark.usefixtures("one_clock")]


def taken_by(app, mate):
    return [row["id"] for row in tasks(app, status=1) if row["worker"] == mate.id and row["batch"]]


def test_a_worker_takes_over_what_can_begin_here_and_leaves_the_rest_to_others(app):
    @app.task
    async def work() -> None: ...

    work.enqueue_many([{}] * 20)
    doomed = Doomed(app)
    doomed.take(limit=20)
    doomed.die()
    first, second = Mate(app, concurrency=8), Mate(app, concurrency=50)

    for _ in range(5):
        first.fetcher()
        first.start_all()
    assert len(first.running) == 8
    # A quarter more than it can run waits for one of the others to end.
    assert len(taken_by(app, first)) == 10

    second.fetcher()
    assert len(second.start_all()) == 10


def test_abandoned_rows_are_rescued_while_others_keep_a_worker_busy(app):
    @app.task
    async def fell() -> None: ...

    @app.task
    async def other() -> None: ...

    fell.enqueue_many([{}] * 8)
    doomed = Doomed(app)
    doomed.take(limit=8)
    doomed.die()
    other.enqueue_many([{}] * 100)
    mate = Mate(app, concurrency=4)
    settle(mate)

    began = []
    while runs := mate.take():
        began += [run.kind.name for run in runs]
        for run in runs:
            mate.finish(run)

    assert began.count("fell") == 8
    assert began.count("other") == 100
    assert set(began[:16]) == {"fell", "other"}


@pytest.mark.parametrize("max_lost", [1, 2])
def test_of_a_kind_with_few_lives_nothing_is_claimed_that_cannot_begin(app, max_lost):
    @app.task(max_lost=max_lost)
    async def frail() -> None: ...

    frail.enqueue_many([{}] * 50)
    owner = Mate(app)
    settle(owner)
    successor = Mate(app, concurrency=4)
    die(owner, successor)
    settle(successor)
    # So fast that it would take many more than it can run.
    successor.in_flight.loads["frail"].per_second = 10_000

    successor.fetcher()

    assert len(taken_by(app, successor)) == len(successor.start_all()) == 4

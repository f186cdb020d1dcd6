"""Buckets that change hands while something is under way, and workers that live twice."""

import pytest

from tests.clockwork import following
from tests.engine.mate import Mate, die, settle
from tests.table import task
from windlass.engine import read as owners_read


@pytest.fixture(autouse=True)
def one_clock(clock):
    with following(clock):
        yield


@pytest.fixture
def step(app):
    @app.task(keep="1d", retries=3)
    async def step(number: int = 0) -> None: ...

    return step


@pytest.fixture
def second(app):
    @app.task(keep="1d")
    async def second() -> None: ...

    return second


def test_a_worker_that_joined_anew_reads_nothing_in_the_buckets_of_its_former_life(
    app, step, second, monkeypatch
):
    zombie, heir = Mate(app), Mate(app)
    settle(zombie, heir)
    for kind in (step, second):
        kind.enqueue_many([{}] * 20)
    read = owners_read.store.read
    stops = iter([True])

    def stopped(*asked):
        rows = read(*asked)
        if next(stops, False):
            # Its process is stopped here. When it wakes up, the first to move is its heartbeat.
            die(zombie, heir)
            settle(heir)
            for kind in (step, second):
                kind.enqueue_many([{}] * 20)
            heir.take()
            zombie.beat()
        return rows

    monkeypatch.setattr(owners_read.store, "read", stopped)
    zombie.feed()
    zombie.start_all()

    assert set(zombie.running) & set(heir.running) == set()


def test_a_bucket_that_was_to_be_given_up_and_is_ours_again_is_read_again(app, step):
    worker = Mate(app)
    settle(worker)
    step.enqueue_many([{}] * 40)
    runs = worker.take()
    other = Mate(app)
    worker.beat()
    worker.feed()
    other.leave()
    worker.beat()
    for run in runs:
        assert worker.finish(run)

    refs = step.enqueue_many([{}] * 200)
    settle(worker)
    worker.take()
    worker.clock.advance(2_000_000)
    worker.take()

    taken = set(worker.running)
    held_up = {task(app, ref)["bucket"] for ref in refs if ref.id not in taken}
    assert len(taken) == 100 or held_up == set()
    assert worker.buckets == set(range(256))

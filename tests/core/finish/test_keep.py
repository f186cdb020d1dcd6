"""How long ended rows stay, and how they go."""

import pytest

from tests.table import count, task, tasks
from windlass import Cancel, Status, TaskNotFound
from windlass.app import FACES
from windlass.clock import SECOND
from windlass.core.maintenance import Maintenance
from windlass.core.task.store import task as store

HOUR = 3600 * SECOND
DAY = 24 * HOUR


def prune(app):
    Maintenance(app.database, app.clock, FACES, numbers=app.fleet.shards[0].numbers).tick()


def kept_for(app, ref):
    row = task(app, ref)
    return row["prune_at"] - row["finished_at"]


def test_a_plain_success_is_deleted_at_once(app):
    @app.task
    def work() -> None: ...

    ref = work.enqueue()
    app.drain()

    assert task(app, ref) is None
    assert ref.status() is Status.SUCCEEDED


def test_a_success_with_a_key_or_a_result_is_kept_for_a_day(app):
    @app.task
    def work(result: int | None = None) -> int | None:
        return result

    keyed, with_result = work.using(key="k").enqueue(), work.enqueue(7)
    app.drain()

    assert kept_for(app, keyed) == DAY
    assert kept_for(app, with_result) == DAY


def test_keep_says_how_long_a_success_stays(app, clock):
    @app.task(keep="2h")
    def work() -> None: ...

    ref = work.enqueue()
    app.drain()
    assert kept_for(app, ref) == 2 * HOUR

    clock.forward("1h59m")
    prune(app)
    assert ref.status() is Status.SUCCEEDED
    assert count(app) == 1
    clock.forward("2m")
    prune(app)
    assert count(app) == 0


def test_keep_nothing_deletes_even_a_result(app):
    @app.task(keep="0s")
    def work() -> int:
        return 7

    ref = work.using(key="k").enqueue()
    app.drain()

    assert count(app) == 0
    assert ref.result() is None


def test_a_failure_is_kept_for_a_week_or_as_keep_failed_says(app):
    @app.task
    def fail() -> None:
        raise ValueError

    @app.task(keep_failed="3h")
    def fail_briefly() -> None:
        raise ValueError

    @app.task(keep_failed="3h")
    def give_up() -> None:
        raise Cancel

    long, brief, cancelled = fail.enqueue(), fail_briefly.enqueue(), give_up.enqueue()
    app.drain()

    assert kept_for(app, long) == 7 * DAY
    assert kept_for(app, brief) == 3 * HOUR
    assert kept_for(app, cancelled) == 3 * HOUR


def test_a_failed_task_that_was_pruned_is_not_called_succeeded(app, clock):
    @app.task(keep_failed="1h")
    def fail() -> None:
        raise ValueError

    ref = fail.enqueue()
    app.drain()
    assert ref.status() is Status.FAILED
    clock.forward("2h")
    prune(app)

    with pytest.raises(TaskNotFound):
        app.ref(ref.id).status()


def test_pruning_goes_in_batches_and_frees_the_keys(app, clock):
    @app.task(keep="1h")
    def work() -> None: ...

    first = work.using(key="k").enqueue()
    work.enqueue_many([{}] * 24)
    app.drain()
    clock.forward("2h")
    now = clock.now()

    pruned = [
        len(app.database.write(lambda connection: store.prune(connection, now=now, limit=10)))
        for _ in range(4)
    ]

    assert pruned == [10, 10, 5, 0]
    assert work.using(key="k").enqueue().id != first.id


def test_only_what_has_ended_is_pruned(app, clock):
    @app.task(keep="1h", retries=1)
    def fail() -> None:
        raise ValueError

    waiting = fail.using(delay="10d").enqueue()
    retried = fail.enqueue()
    app.drain()
    clock.forward("9d")
    prune(app)

    assert [row["id"] for row in tasks(app)] == [waiting.id, retried.id]


def test_a_kept_task_that_is_begun_again_is_not_pruned(app, clock):
    @app.task(keep="1h")
    def work() -> None: ...

    work.using(key="k").enqueue()
    app.drain()
    ref = work.using(key="k", on_conflict="replace", delay="1d").enqueue()
    clock.forward("2h")
    prune(app)

    assert ref.status() is Status.WAITING

"""Retries: how often, how long between, and for which errors."""

import pytest

from tests.table import failures, task
from windlass import Status, TaskFailed, context
from windlass.clock import SECOND
from windlass.operate.task import operate

pytestmark = pytest.mark.mostly("sqlite", "mariadb")


def drain_through(app, clock, *, times, step="2h"):
    for _ in range(times):
        app.drain()
        clock.forward(step)


def test_a_task_is_tried_once_and_then_as_often_as_its_retries_say(app, clock):
    attempts = []

    @app.task(retries=3)
    def fail() -> None:
        attempts.append(context().attempt)
        raise ValueError(f"try {context().attempt}")

    ref = fail.enqueue()
    drain_through(app, clock, times=6)

    assert attempts == [1, 2, 3, 4]
    with pytest.raises(TaskFailed, match="try 4"):
        ref.result()
    assert [row["attempt"] for row in failures(app)] == [1, 2, 3, 4]


def test_a_retry_that_succeeds_ends_well(app, clock):
    @app.task(retries=3)
    def recover() -> int:
        if context().attempt < 3:
            raise ConnectionError
        return context().attempt

    ref = recover.enqueue()
    drain_through(app, clock, times=4)

    assert ref.result() == 3
    row = task(app, ref)
    assert (row["remark"], row["status"]) == (None, Status.SUCCEEDED)


def test_between_tries_the_task_waits_and_says_why(app):
    @app.task(retries=1, backoff="10s")
    def fail() -> None:
        raise ValueError("no luck")

    ref = fail.enqueue()
    app.drain()

    row = task(app, ref)
    assert (row["status"], row["attempt"], row["batch"]) == (Status.WAITING, 1, None)
    assert row["remark"] == "ValueError: no luck"
    assert ref.status() is Status.WAITING


def test_the_back_off_doubles_with_each_try(app, clock):
    waits = []

    @app.task(retries=4, backoff="8s")
    def fail() -> None:
        raise ValueError

    ref = fail.enqueue()
    for _ in range(4):
        app.drain()
        row = task(app, ref)
        waits.append((row["due_at"] - row["finished_at"]) / SECOND)
        clock.forward("1h")

    for wait, expected in zip(waits, [8, 16, 32, 64], strict=True):
        assert 0.75 * expected <= wait <= 1.25 * expected


def test_a_task_is_not_tried_before_its_back_off_is_over(app, clock):
    attempts = []

    @app.task(retries=1, backoff="100s")
    def fail() -> None:
        attempts.append(1)
        raise ValueError

    fail.enqueue()
    app.drain()
    clock.forward("74s")
    app.drain()
    assert len(attempts) == 1

    clock.forward("52s")
    app.drain()
    assert len(attempts) == 2


class Flaky(ConnectionError):
    pass


@pytest.mark.parametrize(
    ("error", "tries"), [(Flaky, 5), (ConnectionError, 3), (ValueError, 1), (SystemExit, 1)]
)
def test_the_most_specific_exception_type_decides(app, clock, error, tries):
    attempts = []

    @app.task(retries={Flaky: 4, OSError: 2}, backoff={Flaky: "1s", Exception: "3s"})
    def fail() -> None:
        attempts.append(1)
        raise error

    ref = fail.enqueue()
    drain_through(app, clock, times=8)

    assert len(attempts) == tries
    assert ref.status() is Status.FAILED


def test_an_operators_retry_gives_all_tries_again(app, clock):
    attempts = []

    @app.task(retries=1)
    def fail() -> None:
        attempts.append(context().attempt)
        raise ValueError

    ref = fail.enqueue()
    drain_through(app, clock, times=3)
    assert attempts == [1, 2]

    assert operate.retry(app.fleet.single, ref.id) is True
    assert ref.status() is Status.WAITING
    drain_through(app, clock, times=3)

    assert attempts == [1, 2, 1, 2]
    assert ref.status() is Status.FAILED


def test_only_what_failed_or_was_cancelled_can_be_retried(app):
    @app.task(keep="1h")
    def succeed() -> None: ...

    waiting = succeed.using(delay="1h").enqueue()
    done = succeed.enqueue()
    app.drain()

    assert operate.retry(app.fleet.single, waiting.id) is False
    assert operate.retry(app.fleet.single, done.id) is False
    assert done.status() is Status.SUCCEEDED

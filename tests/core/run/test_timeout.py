"""Time-outs: a handler that takes too long has failed, whatever it does later."""

import asyncio
import threading
import time

import pytest

from tests.table import failures, task
from tests.wait import eventually
from windlass import Status, TaskFailed, context


@pytest.fixture
def release():
    """Lets stuck threads go at the end of the test at the latest."""
    event = threading.Event()
    yield event
    event.set()


def test_an_async_handler_is_stopped_when_its_time_is_out(app):
    stopped = []

    @app.task(timeout="50ms")
    async def endless() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(True)
            raise

    ref = endless.enqueue()
    app.drain()

    assert stopped == [True]
    with pytest.raises(TaskFailed, match=r"TimeoutError: the handler did not end within 0\.05 s"):
        ref.result()
    assert len(failures(app)) == 1


def test_an_async_handler_that_will_not_be_stopped_has_failed_all_the_same(app):
    @app.task(timeout="30ms")
    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "late"

    ref = stubborn.enqueue()
    app.drain()

    assert ref.status() is Status.FAILED
    assert task(app, ref)["result"] is None


def test_a_sync_handler_that_outlives_its_time_is_recorded_and_fenced_off(app, release):
    threads = []

    @app.task(timeout="50ms")
    def stuck() -> str:
        threads.append(threading.current_thread())
        release.wait(30)
        return "late"

    ref = stuck.enqueue()
    app.drain()
    assert ref.status() is Status.FAILED

    release.set()
    threads[0].join(10)
    assert not threads[0].is_alive()

    row = task(app, ref)
    assert (row["status"], row["result"]) == (Status.FAILED, None)
    assert "TimeoutError" in row["remark"]


def test_the_late_outcome_of_one_attempt_does_not_touch_the_next(app, clock, release):
    ended = threading.Event()

    @app.task(timeout="80ms", retries=1, backoff="1s")
    def slow_once() -> str:
        if context().attempt == 1:
            release.wait(30)
            ended.set()
            raise ValueError("late")
        return "second"

    ref = slow_once.enqueue()
    app.drain()
    assert task(app, ref)["status"] == Status.WAITING
    clock.forward("5s")
    app.drain()
    release.set()
    ended.wait(10)

    assert ref.result() == "second"
    assert task(app, ref)["attempt"] == 2


def test_an_abandoned_thread_gives_its_place_to_others(app, release):
    @app.task(timeout="50ms", concurrency=2)
    def stuck(number: int) -> int:
        if number < 3:
            release.wait(30)
        return number

    refs = stuck.enqueue_many([{"number": number} for number in range(10)])
    app.drain()

    assert [ref.status() for ref in refs[:3]] == [Status.FAILED] * 3
    assert [ref.result() for ref in refs[3:]] == list(range(3, 10))


def test_a_timeout_is_retried_as_the_timeout_error_it_is(app, clock):
    attempts = []

    @app.task(timeout="20ms", retries={TimeoutError: 1})
    async def endless() -> None:
        attempts.append(context().attempt)
        await asyncio.sleep(60)

    ref = endless.enqueue()
    app.drain()
    clock.forward("1m")
    app.drain()

    assert attempts == [1, 2]
    assert ref.status() is Status.FAILED


def test_a_handler_within_its_time_is_left_alone(app):
    @app.task(timeout="20s")
    async def quick() -> float:
        return context().deadline - time.monotonic()

    ref = quick.enqueue()
    app.drain()

    assert 10 < ref.result() <= 20


def test_a_handler_without_a_timeout_has_no_deadline(app):
    @app.task
    def quick() -> str:
        return repr(context().deadline)

    ref = quick.enqueue()
    app.drain()

    assert ref.result() == "None"


def test_a_worker_counts_the_threads_it_had_to_abandon(app, release):
    @app.task(timeout="30ms")
    def stuck() -> None:
        release.wait(30)

    stuck.enqueue()
    worker = app.worker(until_idle=True)
    asyncio.run(worker.run())
    assert worker.pulse().abandoned == 1

    release.set()

    eventually(lambda: worker.pulse().abandoned == 0, what="the thread's return")

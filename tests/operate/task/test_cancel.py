"""Cancelling from outside, before, during and after the run."""

import asyncio

import pytest

from tests.table import task
from windlass import Status, TaskCancelled
from windlass.operate.task import operate


def test_a_waiting_task_is_cancelled_and_never_runs(app):
    seen = []

    @app.task
    def work() -> None:
        seen.append(1)

    ref = work.enqueue()

    assert ref.cancel("not needed") is True
    app.drain()

    assert seen == []
    assert ref.status() is Status.CANCELLED
    with pytest.raises(TaskCancelled, match="not needed"):
        ref.result()
    row = task(app, ref)
    assert (row["due_at"], row["attempt"], row["remark"]) == (None, 0, "not needed")


def test_cancelling_twice_makes_no_difference(app):
    @app.task
    def work() -> None: ...

    ref = work.enqueue()

    assert [ref.cancel("first"), ref.cancel("second")] == [True, False]
    assert task(app, ref)["remark"] == "first"


def test_what_has_ended_cannot_be_cancelled(app):
    @app.task(keep="1h")
    def work() -> None: ...

    ref = work.enqueue()
    app.drain()

    assert ref.cancel() is False
    assert ref.status() is Status.SUCCEEDED


async def test_cancel_has_an_async_twin(app):
    @app.task
    def work() -> None: ...

    ref = await work.aenqueue()

    assert await ref.acancel("why not") is True
    assert await ref.astatus() is Status.CANCELLED


def test_the_outcome_of_a_task_cancelled_while_it_ran_is_refused(app):
    @app.task
    def work() -> str:
        app.ref(refs[0].id).cancel("too late")
        return "done anyway"

    refs = [work.enqueue()]
    app.drain()

    row = task(app, refs[0])
    assert (row["status"], row["remark"], row["result"]) == (Status.CANCELLED, "too late", None)


async def test_a_running_async_handler_is_stopped_when_its_task_is_cancelled(app):
    started, stopped = asyncio.Event(), asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    ref = await endless.aenqueue()
    worker = app.worker()
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(started.wait(), 10)
    await ref.acancel("stop")
    await asyncio.wait_for(stopped.wait(), 10)
    worker.stop()
    await running

    assert task(app, ref)["status"] == Status.CANCELLED


def test_a_cancelled_task_runs_again_if_an_operator_says_so(app):
    seen = []

    @app.task
    def work() -> None:
        seen.append(1)

    ref = work.enqueue()
    ref.cancel()

    assert operate.retry(app.fleet.single, ref.id) is True
    app.drain()

    assert seen == [1]


def test_a_cancelled_task_is_kept_as_long_as_its_kind_says(app):
    @app.task(keep_failed="1h")
    def work() -> None: ...

    ref = work.enqueue()
    ref.cancel()

    row = task(app, ref)
    assert row["prune_at"] - row["finished_at"] == 3600 * 1_000_000


@pytest.mark.parametrize("reason", ["nul \x00", "lone \ud800", "x" * 5000, ""])
def test_any_reason_can_be_recorded(app, reason):
    @app.task
    def work() -> None: ...

    ref = work.enqueue()

    assert ref.cancel(reason) is True
    remark = task(app, ref)["remark"]
    assert remark.startswith(reason[:3] or "cancelled")
    assert len(remark) <= 1000

"""What users notice of the owner's read: in its first moments a run is known to its worker only."""

import asyncio
import threading
import time

import pytest

from tests.wait import eventually
from windlass import DuplicateKey, Status, context, telemetry


@pytest.fixture
def refused():
    """The tasks whose outcomes were refused."""
    tasks = []
    stop = telemetry.subscribe(
        lambda event: tasks.append(event.fields["task"]) if event.name == "task.refused" else None
    )
    yield tasks
    stop()


def test_a_task_that_has_just_begun_shows_as_waiting_and_a_moment_later_as_running(app):
    seen = []

    @app.task
    def work() -> None:
        ref = app.ref(context().task_id)
        seen.append(ref.status())
        eventually(lambda: ref.status() is Status.RUNNING, 10, what="a run that is written down")

    ref = work.enqueue()
    app.drain()

    assert seen == [Status.WAITING]
    assert ref.status() is Status.SUCCEEDED


def test_a_task_that_is_cancelled_when_it_has_just_begun_stays_cancelled(app, refused):
    @app.task
    def work() -> str:
        assert app.ref(context().task_id).cancel("changed my mind")
        return "done"

    ref = work.enqueue()
    app.drain()

    assert ref.status() is Status.CANCELLED
    assert refused == [ref.id]


def test_a_task_that_is_replaced_when_it_has_just_begun_runs_again_with_the_new_arguments(
    app, refused
):
    seen = []

    @app.task
    def work(number: int) -> int:
        seen.append(number)
        if number == 1:
            by_somebody_else(lambda: work.using(key="only", on_conflict="replace").enqueue(2))
        return number

    def by_somebody_else(act) -> None:
        thread = threading.Thread(target=act)
        thread.start()
        thread.join()

    ref = work.using(key="only").enqueue(1)
    app.drain()

    assert seen == [1, 2]
    assert ref.result() == 2
    assert refused == [ref.id]


def test_a_task_that_is_known_to_run_is_not_replaced(app):
    @app.task
    def work(number: int) -> int:
        ref = app.ref(context().task_id)
        eventually(lambda: ref.status() is Status.RUNNING, 10, what="a run that is written down")
        with pytest.raises(DuplicateKey):
            work.using(key="only", on_conflict="replace").enqueue(2)
        return number

    ref = work.using(key="only").enqueue(1)
    app.drain()

    assert ref.result() == 1


def test_an_item_that_is_removed_when_its_visit_has_just_begun_is_gone(app, refused):
    @app.rolling(every="1d")
    def stock(code: str) -> str:
        assert stock.remove([code]) == 1
        return "7"

    stock.add(["bolt"])
    app.drain()

    assert stock.item("bolt") is None
    assert len(refused) == 1


def test_an_async_handler_of_a_cancelled_task_is_stopped_when_it_would_be_written_down(app):
    seen = []

    @app.task
    async def work() -> None:
        await asyncio.to_thread(app.ref(context().task_id).cancel)
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("stopped")
            raise

    work.enqueue()
    began = time.monotonic()
    app.drain()

    assert seen == ["stopped"]
    assert time.monotonic() - began < 20

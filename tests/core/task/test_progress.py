"""How far a task is: reported by its handler, written now and then, shown while it runs."""

import threading

import pytest

from tests.core.limit.test_switch import claim_all
from tests.core.run.working import working
from tests.table import count
from tests.wait import eventually
from windlass import BadInput, NoContext, context
from windlass.core.ring.ring import Mark
from windlass.core.task.progress import progress_of, report
from windlass.core.task.store import progress
from windlass.database.schema import progress as progress_table
from windlass.operate.task import operate
from windlass.value.outcome import Succeeded
from windlass.value.task import TaskFilter


def shown(app, ref):
    return operate.show(app.fleet, app.registry, ref.id).task.progress


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.mostly("sqlite", "postgresql")
def test_progress_is_shown_while_a_task_runs_and_is_gone_when_it_has_ended(app, is_async):
    go_on = threading.Event()

    def work() -> None:
        context().progress(3, 12, "third page")
        assert go_on.wait(60)

    async def awork() -> None:
        context().progress(3, 12, "third page")
        import asyncio

        await asyncio.to_thread(go_on.wait, 60)

    task = app.task(name="work", keep="1h", timeout="2m")(awork if is_async else work)
    ref = task.enqueue()
    with working(app):
        eventually(lambda: shown(app, ref) is not None)
        found = shown(app, ref)
        listed = operate.page(app.fleet, TaskFilter(kind="work"), after=None, limit=5)
        go_on.set()
        ref.result(timeout=60)

    assert (found.done, found.total, found.note, found.percent) == (3, 12, "third page", 25.0)
    assert [each.progress.done for each in listed] == [3]
    assert (shown(app, ref), count(app, progress_table)) == (None, 0)


class Hauler:
    """A worker with one running task, moved by hand."""

    def __init__(self, app) -> None:
        @app.task(keep="1h")
        def work() -> None: ...

        self.ref = work.enqueue()
        self.worker = app.worker()
        self.worker.in_flight._on_queued = lambda _is_async: None
        self.worker.heartbeat.join_ring()
        self.worker.in_flight.add(claim_all(app, self.worker))
        self.run = self.worker.in_flight.advance(None, None, is_async=False)
        self.mark = Mark(self.worker._site, self.worker.in_flight, lease=30_000_000)

    def reach(self, done: int, *, is_due: bool = True) -> None:
        report(self.run, done, 10, "")
        if is_due:
            progress_of(self.run).saved_at = float("-inf")
        self.mark.tick()


def test_it_is_written_at_most_once_a_second_and_the_last_word_counts(app):
    hauler = Hauler(app)

    hauler.reach(1)
    hauler.reach(2, is_due=False)
    hauler.reach(3, is_due=False)
    first = shown(app, hauler.ref).done
    hauler.reach(4)

    assert (first, shown(app, hauler.ref).done, count(app, progress_table)) == (1, 4, 1)


def test_a_worker_that_was_marked_dead_writes_no_progress(app):
    hauler = Hauler(app)
    hauler.reach(1)
    hauler.worker.heartbeat.leave("the test says so")

    hauler.reach(7)

    assert shown(app, hauler.ref) is None or shown(app, hauler.ref).done == 1


def test_progress_that_a_lost_worker_left_is_pruned(app):
    hauler = Hauler(app)
    hauler.reach(1)
    app.database.write(
        lambda connection: connection.exec_driver_sql("update windlass_task set status = 0")
    )

    pruned = app.database.write(lambda connection: progress.prune(connection, limit=100))

    assert (pruned, count(app, progress_table)) == (1, 0)
    hauler.worker.in_flight.end(hauler.run, Succeeded())


@pytest.mark.mostly("sqlite")
def test_progress_must_be_numbers_and_has_a_place_only_in_a_handler(app):
    refused = []

    @app.task(retries=0)
    def work() -> None:
        for wrong in ((-1, 5), (1.5, 5), (1, "5")):
            with pytest.raises(BadInput, match="is not a number from 0 on") as caught:
                context().progress(*wrong)
            refused.append(caught.value)

    work.enqueue()
    app.drain()

    assert len(refused) == 3
    with pytest.raises(NoContext):
        context().progress(1)

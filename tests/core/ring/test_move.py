"""Rows that users move while the owner of their bucket has read them, and written nothing."""

import pytest
from sqlalchemy import update

from tests.core.ring.peer import Mate, die, settle
from tests.table import task, tasks
from windlass import App, Status
from windlass.clock import to_datetime
from windlass.core.fetch.claim import Only
from windlass.core.run.ready import Run
from windlass.core.task.store import task as task_store
from windlass.database import schema
from windlass.rolling.operate.item import ItemVisit
from windlass.value.outcome import Retried, Snoozed, Succeeded

pytestmark = pytest.mark.usefixtures("one_clock")


@pytest.fixture
def stock(app):
    @app.rolling(every="10d")
    async def stock(code: str) -> None: ...

    return stock


def owner(app, **settings) -> Mate:
    """A worker that owns every bucket."""
    mate = Mate(app, **settings)
    settle(mate)
    return mate


def test_a_cancelled_row_that_only_was_read_is_not_finished(app, step):
    ref = step.enqueue()
    worker = owner(app)
    (run,) = worker.take()

    assert ref.cancel()

    assert not worker.finish(run)
    assert ref.status() is Status.CANCELLED


def test_marking_a_cancelled_row_stops_its_handler(app, step):
    ref = step.enqueue()
    worker = owner(app)
    (run,) = worker.take()
    ref.cancel()

    worker.run_long()

    assert worker.running == []
    assert not worker.finish(run)
    assert ref.status() is Status.CANCELLED


def test_a_row_that_was_cancelled_and_retried_is_not_finished_by_the_run_before(app, step):
    ref = step.enqueue()
    worker = owner(app)
    (former,) = worker.take()
    ref.cancel()
    now = app.clock.now()
    app.database.write(lambda connection: task_store.retry(connection, [ref.id], now=now))

    assert not worker.finish(former)
    (again,) = worker.take()
    assert worker.finish(again)
    assert ref.status() is Status.SUCCEEDED


def test_a_row_that_was_replaced_is_not_finished_by_the_run_before(app, step):
    ref = step.using(key="k").enqueue(1)
    worker = owner(app)
    (former,) = worker.take()
    step.using(key="k", on_conflict="replace").enqueue(2)

    assert not worker.finish(former)
    (again,) = worker.take()
    assert again.task.payload != former.task.payload
    assert worker.finish(again)
    assert ref.status() is Status.SUCCEEDED


def test_a_row_that_was_replaced_for_the_same_moment_is_not_finished_by_the_run_before(
    app, step, clock
):
    how = {"key": "k", "at": to_datetime(clock.now() + 1_000_000), "on_conflict": "replace"}
    step.using(**how).enqueue(1)
    worker = owner(app)
    clock.forward("600ms")
    (former,) = worker.take()
    ref = step.using(**how).enqueue(2)

    assert not worker.finish(former)
    assert ref.status() is Status.WAITING


def test_an_item_that_runs_is_not_hurried(app, stock):
    stock.add(["a", "b"])
    worker = owner(app)
    runs = worker.take()

    stock.add(["a", "b"], now=True)

    assert [worker.finish(run) for run in runs] == [True, True]


def test_a_hurried_item_does_not_run_twice_at_once(app, stock, clock):
    dead, worker = Mate(app), Mate(app)
    settle(dead, worker)
    die(dead, worker)
    settle(worker)
    stock.add(["a", "b", "c"])
    worker.take()
    stock.add(["late"])
    # It was due before the other worker died, and commits only now.
    careful_to = worker.ring.share.careful_to
    move(app, "late", careful_to - 10)

    stock.add(["a"], now=True)
    for _ in range(4):
        clock.forward("300ms")
        worker.take()

    assert len(worker.running) == len(set(worker.running)) == 4


def test_a_removed_item_that_only_was_read_stays_removed(app, stock):
    stock.add(["a"])
    worker = owner(app)
    (run,) = worker.take()

    assert stock.remove(["a"]) == 1

    assert not worker.finish(run)
    assert tasks(app) == []


def test_a_visit_takes_nothing_that_its_owner_may_run(app, stock):
    stock.add(["a"])
    worker = owner(app)
    (run,) = worker.take()

    assert not visit(app, run.task.id).start_all()
    assert worker.finish(run)


def test_a_visit_takes_nothing_that_runs_as_its_window_was_closed_just_now(app, stock, clock):
    stock.add(["a"])
    worker = owner(app)
    (run,) = worker.take()

    app.set("stock", window="12:00-13:00")
    wish = ItemVisit(app.rolling_tools, app.registry.get("stock"), "a")
    assert not wish.has_worker()

    assert not visit(app, run.task.id, is_rested=wish.is_rested).start_all()
    assert worker.finish(run)


@pytest.mark.parametrize("outcome", [Retried(0, "again", "trace"), Snoozed(0)])
def test_every_outcome_that_leaves_a_row_moves_it(app, step, outcome):
    ref = step.enqueue()
    worker = owner(app)
    (run,) = worker.take()

    assert worker.finish(run, outcome)

    assert task(app, ref)["due_at"] > run.task.due_at


def test_repeating_a_finish_whose_answer_was_lost_changes_nothing(app, step, stock):
    ref = step.enqueue()
    stock.add(["a"])
    worker = owner(app)
    runs = worker.take()
    assert all(worker.finish(run) for run in runs)
    before = tasks(app)

    write_again(worker, runs)

    assert tasks(app) == before
    assert ref.status() is Status.SUCCEEDED


def visit(app, number: int, *, is_rested: bool = False) -> Mate:
    """Somebody who joined for one row, and has tried to take it."""
    caller = Mate(app, only=Only(number, is_rested))
    caller.fetcher()
    return caller


def write_again(worker: Mate, runs: list[Run]) -> None:
    """Write outcomes again that were written before, as if the answer was lost."""
    for run in runs:
        run.outcome = Succeeded()
    done = worker.worker.finish.done
    worker.worker.finish._write(runs)
    assert worker.worker.finish.done == done


def move(app: App, key: str, due_at: int) -> None:
    """Have the row be due at another time."""
    query = update(schema.task).where(schema.task.c.task_key == key).values(due_at=due_at)
    app.database.write(lambda connection: connection.execute(query))

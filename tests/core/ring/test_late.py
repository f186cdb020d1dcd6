"""Rows that commit late, with a time that the owner's cursor has passed by long ago."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from sqlalchemy import create_engine, update

from tests.core.ring.late import make_rows
from tests.core.ring.peer import Mate, die, pass_by, settle
from tests.core.run.working import working
from tests.wait import eventually
from windlass import App, Status, Task
from windlass.core.fetch.owner import START_OVER_AFTER
from windlass.core.task.store import task as task_store
from windlass.database import schema

OPEN_SECONDS = 5


def declare(app) -> Task:
    @app.task(keep="1d")
    async def step() -> None: ...

    return step


@contextmanager
def open_transaction(app: App, step: Task) -> Iterator[list[int]]:
    """Rows that are enqueued now and committed when the block ends; their ids."""
    if app.database.dialect.is_embedded:
        # While one of its transactions has written, nobody else could write anything.
        rows = make_rows(app, "step", 3)
        yield [row.id for row in rows]
        dialect = app.database.dialect
        app.database.write(lambda connection: task_store.insert(connection, dialect, rows))
        return
    with app.database.engine.connect() as connection, connection.begin():
        yield [step.using(conn=connection).enqueue().id for _ in range(3)]


def test_rows_that_commit_behind_the_cursor_are_read(app, clock, one_clock):
    step = declare(app)
    worker = Mate(app)
    settle(worker)
    with open_transaction(app, step) as late:
        for _ in range(12):
            step.enqueue_many([{}] * 5)
            for run in worker.take():
                assert run.task.id not in late
                assert worker.finish(run)
            pass_by(clock, 0.4)
            worker.beat()
        # What lies ahead of the late rows, and keeps the cursor there.
        step.enqueue_many([{}] * 5)
        worker.take()

    taken = set()
    for _ in range(int(START_OVER_AFTER / 0.2) + 2):
        step.enqueue_many([{}] * 2)
        taken |= {run.task.id for run in worker.take()}
        pass_by(clock, 0.2)
        worker.beat()

    assert set(late) <= taken


def test_rows_that_commit_after_the_funeral_of_their_owner_are_claimed(app, clock, one_clock):
    step = declare(app)
    dead, successor = Mate(app), Mate(app)
    settle(dead, successor)
    with open_transaction(app, step) as late:
        die(dead, successor)
        settle(successor)
        successor.take()

    taken = {}
    for _ in range(8):
        taken |= {run.task.id: run.task for run in successor.take()}
        pass_by(clock, 0.3)
        successor.beat()

    assert set(late) <= taken.keys()
    # They were due before it died, and nobody knows that it has not seen them.
    assert not any(taken[number].is_read for number in late)


def test_rows_that_commit_while_their_bucket_changes_hands_are_run_once(app, clock, one_clock):
    step = declare(app)
    mates = [Mate(app)]
    settle(*mates)
    with open_transaction(app, step) as late:
        for _ in range(3):
            mates.append(Mate(app))
            settle(*mates)
            step.enqueue_many([{}] * 5)
            for mate in mates:
                mate.take()
    mates.append(Mate(app))
    settle(*mates)

    taken: list[int] = []
    for _ in range(6):
        for mate in mates:
            taken += [run.task.id for run in mate.take()]
        pass_by(clock, 0.3)
        for mate in mates:
            mate.beat()

    assert sorted(number for number in taken if number in late) == sorted(late)


def test_rows_that_are_due_at_the_same_moment_fill_every_place(app, clock, one_clock):
    """As items are that ended in one commit, and tasks that were put off to one moment."""
    step = declare(app)
    step.enqueue_many([{}] * 300)
    due_at = clock.now()
    moved = update(schema.task).values(due_at=due_at)
    app.database.write(lambda connection: connection.execute(moved))
    worker = Mate(app, concurrency=100)
    settle(worker)
    pass_by(clock, 3)
    worker.beat()
    runs = worker.take()
    assert len(runs) == 100

    assert all(worker.finish(run) for run in runs[:10])

    assert len(worker.take()) == 10


@pytest.mark.slow
def test_a_transaction_that_stays_open_for_seconds_around_an_enqueue_is_not_missed(database_url):
    with closing(App(database_url)) as app, closing(App(database_url)) as other:
        step, stream = declare(app), declare(other)
        app.prepare()
        users = create_engine(app.database.url)
        with working(app, concurrency=5):
            ref = stream.enqueue()
            eventually(lambda: ref.status() is Status.SUCCEEDED, 20)
            with users.connect() as connection, connection.begin():
                late = [stream.using(conn=connection).enqueue() for _ in range(20)]
                end = time.monotonic() + OPEN_SECONDS
                while time.monotonic() < end:
                    if not app.database.dialect.is_embedded:
                        # Others commit meanwhile: the cursor goes on past what is late.
                        step.enqueue_many([{}] * 10)
                    time.sleep(0.05)
                committed = time.monotonic()
            for ref in late:
                eventually(lambda ref=ref: app.ref(ref.id).status() is Status.SUCCEEDED, 20)
            assert time.monotonic() - committed < 15
        users.dispose()

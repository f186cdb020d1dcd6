"""Who locks rows by their ids never waits for another row, however few rows the table has."""

from contextlib import closing

import pytest
from sqlalchemy import create_engine, insert, select, update

from windlass import App
from windlass.clock import SECOND
from windlass.core.ring import store as ring_store
from windlass.core.shard.store import move
from windlass.core.task.store import task as task_store
from windlass.database.dialect.base import lock_runs
from windlass.database.schema import task
from windlass.value.status import Status

NOW = 1_800_000_000 * SECOND
ROWS = range(1, 60)
FOREIGN = 33
OURS = [number for number in ROWS if number % 3]


@pytest.fixture
def database(server_url):
    with closing(App(server_url)) as app:
        app.prepare()
        app.database.write(fill)
        yield app.database


def fill(connection):
    due = {"kind": "count", "due_at": NOW}
    rows = [
        {**due, "id": number, "bucket": 1, "status": Status.RUNNING, "priority": 0}
        | {"created_at": NOW, "batch": 7, "worker": 3, "payload": "[]", "lost": 0, "attempt": 1}
        for number in ROWS
    ]
    connection.execute(insert(task), rows)


def held_elsewhere(database):
    """A transaction of somebody else that has changed the foreign row and waits."""
    connection = create_engine(database.url).connect()
    connection.begin()
    connection.execute(update(task).where(task.c.id == FOREIGN).values(payload="{}"))
    return closing(connection)


def push(connection):
    return ring_store.push(connection, dict.fromkeys(OURS, 7), worker=3, until=NOW)


def lock(connection):
    return lock_runs(connection, OURS)


def cancel(connection):
    return task_store._locked(connection, OURS, [Status.RUNNING])


def release(connection):
    connection.execute(update(task).where(task.c.id.in_(OURS)).values(batch=move.LEAVING))
    copies = {number: {} for number in OURS}
    move.release(connection, copies, faces=())
    return OURS


@pytest.mark.parametrize("change", [push, lock, cancel, release])
def test_a_row_that_somebody_else_has_locked_holds_up_no_other_row(database, change):
    with held_elsewhere(database):
        changed = database.write(change, tries=1)

    assert sorted(changed) == OURS


def test_the_row_itself_is_waited_for(database):
    alone = select(task.c.id).where(task.c.id == FOREIGN).with_for_update(nowait=True)
    with held_elsewhere(database), pytest.raises(Exception, match=r"(?i)lock"):
        database.write(lambda connection: connection.execute(alone).all(), tries=1)

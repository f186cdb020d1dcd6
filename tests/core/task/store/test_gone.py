"""Traces of deleted rows in each database: written, found, pruned, and never silently missing."""

import pytest

from tests.database.plan import scans, statements
from tests.table import count, tasks
from windlass.core.task.fate import Fate
from windlass.core.task.store import gone, task
from windlass.database.gone import KEEP_TRACES, traces_of
from windlass.database.schema import gone as table
from windlass.value.shard import first_number
from windlass.value.task import NewTask


@pytest.fixture
def database(app):
    app.prepare()
    return app.database


def leave(database, *ids, now=1):
    traces = traces_of(ids, now=now)
    database.write(lambda connection: database.dialect.remember(connection, traces))


def is_gone(database, *ids):
    return database.read(lambda connection: gone.is_any_gone(connection, ids))


def prune(database, *, now, limit=100):
    return database.write(lambda connection: gone.prune(connection, now=now, limit=limit))


def test_a_row_that_was_run_and_deleted_is_not_written_again(app, database):
    @app.task
    def note() -> None: ...

    def insert(connection, rows, fate):
        task.insert(connection, database.dialect, rows, again=fate.is_unknown)
        fate.check(connection, [row.id for row in rows])
        return fate.sends("written", [row.id for row in rows])

    fate = Fate(database)
    row = NewTask(7, "note", None, 0, 0, 1, "{}", 1)
    database.write(lambda connection: insert(connection, [row], fate))
    app.drain()
    assert tasks(app) == []
    if not database.dialect.loses_answers:
        # There is no second try under the same id.
        assert not fate.is_unknown
        assert count(app, table) == 0
        return

    answer = fate.settle(lambda: database.write(lambda it: insert(it, [row], fate)))

    assert answer == "written"
    assert tasks(app) == []


def test_an_id_is_found_by_its_trace_alone(database):
    leave(database, 5, 9, 100)
    leave(database, 7)

    assert [number for number in range(120) if is_gone(database, number)] == [5, 7, 9, 100]
    assert is_gone(database, 6, 8, 9)
    assert not is_gone(database, 4, 6, 8)


def test_old_traces_are_pruned_and_their_ids_count_as_forgotten(app, database):
    other = first_number(1)
    leave(database, 5, 9, now=1)
    leave(database, 7, now=2)
    leave(database, other + 3, now=2)
    leave(database, 12, other + 20, now=KEEP_TRACES)

    assert prune(database, now=2 + KEEP_TRACES) == 3

    for forgotten in (5, 6, 9, other, other + 3):
        with pytest.raises(gone.Forgotten):
            is_gone(database, forgotten)
    assert not is_gone(database, 10)
    assert not is_gone(database, other + 4)
    assert is_gone(database, 12)
    # A trace that is found tells more than one that is forgotten.
    assert is_gone(database, 5, 12)


def test_pruning_leaves_one_row_for_each_shard(app, database):
    for number in range(1, 21):
        leave(database, number, now=number)

    assert [prune(database, now=30 + KEEP_TRACES, limit=6) for _ in range(5)] == [6, 6, 6, 2, 0]

    assert count(app, table) == 1
    with pytest.raises(gone.Forgotten):
        is_gone(database, 20)
    assert not is_gone(database, 21)


def test_a_clock_that_jumps_makes_nobody_count_twice(app, database):
    """All traces are pruned at once: who asks is told that nobody knows."""
    leave(database, 5, now=1)

    prune(database, now=1 << 60)

    with pytest.raises(gone.Forgotten):
        is_gone(database, 5)


def test_tasks_leave_one_trace_for_a_group(app, database):
    @app.task
    def note() -> None: ...

    note.enqueue_many([{}] * 100)
    app.drain()

    if not database.dialect.loses_answers:
        assert count(app, table) == 0
        return
    assert 1 <= count(app, table) <= 10


def test_looking_for_a_trace_reads_no_whole_table(app, database, database_engine):
    traces = [trace for first in range(0, 200_000, 10) for trace in traces_of([first], now=1)]
    database.write(lambda connection: database.dialect.remember(connection, traces))
    analyze = "analyze table" if database_engine in ("mariadb", "mysql") else "analyze"
    with database.engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql(
            f"{analyze} windlass_gone"
        )

    with statements(app, "gone") as caught:
        assert is_gone(database, 199_980)

    assert caught
    assert [each for it in caught for each in scans(database_engine, app, it, {table.name})] == []

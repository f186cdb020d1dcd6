"""Task rows in each database: exact comparison, pruning, bounds."""

from contextlib import closing

import pytest
from sqlalchemy import insert, select

from tests.table import count, failures
from windlass import App, Status
from windlass.clock import SECOND, ManualClock
from windlass.core.alert import store as alerts
from windlass.core.finish import store as finish_store
from windlass.core.ring import store as ring_store
from windlass.core.task.store import task
from windlass.database.schema import alert, failure, stat
from windlass.database.schema import task as table
from windlass.database.schema import worker as worker_table
from windlass.value.task import NewTask, TaskFilter

DAY = 24 * 3600 * SECOND


@pytest.fixture
def app(database_url):
    with closing(App(database_url, clock=ManualClock())) as app:
        app.prepare()
        yield app


@pytest.fixture
def database(app):
    return app.database


def new(number, *, kind="work", key=None, due_at=1, priority=0, payload="{}"):
    return NewTask(number, kind, key, 0, priority, due_at, payload, 1)


def write(database, *rows):
    return database.write(lambda connection: task.insert(connection, database.dialect, rows))


def test_an_inserted_row_reads_back_as_it_was_written(database):
    write(database, new(7, key="k", due_at=5, priority=-3, payload='{"a":"🚢"}'))

    found = database.read(lambda connection: task.get(connection, 7))

    assert (found.id, found.kind, found.key, found.status) == (7, "work", "k", Status.WAITING)
    assert (found.due_at, found.priority, found.payload) == (5, -3, '{"a":"🚢"}')
    assert (found.attempt, found.lost, found.batch, found.worker) == (0, 0, None, None)


@pytest.mark.parametrize("many", [1, 2])
def test_a_row_whose_key_is_taken_is_left_out(app, database, many):
    write(database, new(1, key="k", payload='{"a":1}'))

    inserted = write(database, *[new(2, key="k", payload='{"a":2}'), new(3)][:many])

    assert inserted == ({3} if many == 2 else set())
    held = database.read(lambda connection: task.find(connection, "work", "k"))
    assert (held.id, held.payload) == (1, '{"a":1}')
    assert count(app) == many


def test_inserting_the_same_rows_again_has_no_second_effect(app, database):
    rows = [new(number, key=f"k{number}") for number in range(1, 20)]

    write(database, *rows)
    write(database, *rows)

    assert count(app) == 19


@pytest.mark.parametrize("column", ["key", "kind"])
def test_text_compares_byte_by_byte(database, column):
    names = ["a", "A", "a ", " a", "á", "a\u0301", "\uff41", "ß", "ss", "\u0131", "i"]
    write(
        database,
        *(
            new(number, **{column: name}, **({} if column == "key" else {"key": "k"}))
            for number, name in enumerate(names, start=1)
        ),
    )

    for number, name in enumerate(names, start=1):
        wanted = TaskFilter(**{column: name})
        found = database.read(
            lambda connection, wanted=wanted: task.listing(connection, wanted, limit=50)
        )
        assert [row.id for row in found] == [number]


def test_keys_are_found_many_at_a_time(database):
    write(database, *(new(number, key=f"k{number}") for number in range(1, 1201)))

    found = database.read(
        lambda connection: task.find_keys(
            connection,
            database.dialect,
            "work",
            {*(f"k{number}" for number in range(1, 1201)), "none"},
        )
    )

    assert len(found) == 1200
    assert found["k700"] == (700, Status.WAITING)


def end(database, numbers, *, prune_at):
    database.write(
        lambda connection: connection.execute(
            table.update()
            .where(table.c.id.in_(numbers))
            .values(status=2, due_at=None, prune_at=prune_at)
        )
    )


def test_pruning_takes_the_oldest_first_and_only_what_is_over(database):
    write(database, *(new(number) for number in range(1, 11)))
    for number in range(1, 9):
        end(database, [number], prune_at=100 - number)

    pruned = [
        len(database.write(lambda connection, now=now: task.prune(connection, now=now, limit=3)))
        for now in (91, 95, 95, 95)
    ]

    left = database.read(lambda connection: connection.scalars(select(table.c.id)).all())
    assert pruned == [0, 3, 1, 0]
    assert sorted(left) == [1, 2, 3, 4, 9, 10]


def test_counts_are_by_state(database):
    write(database, *(new(number, due_at=number * 10) for number in range(1, 8)))
    end(database, [1], prune_at=1000)
    database.write(
        lambda connection: connection.execute(
            table.update().where(table.c.id == 2).values(status=3, due_at=None, prune_at=1000)
        )
    )
    database.write(
        lambda connection: connection.execute(
            table.update().where(table.c.id == 3).values(status=1)
        )
    )

    found = database.read(
        lambda connection: task.counts(connection, database.dialect, {"work": 50})
    )

    assert found["work"] == {"waiting": 4, "due": 2, "running": 1, "failed": 1}


def remember(database, kind, numbers):
    database.write(
        lambda connection: connection.execute(
            insert(failure),
            [
                {
                    "id": number,
                    "task_id": 1,
                    "kind": kind,
                    "attempt": 1,
                    "failed_at": number,
                    "error": "e",
                    "trace": "t",
                }
                for number in numbers
            ],
        )
    )


def test_failures_are_bounded_for_each_kind(app, database):
    most = finish_store.FAILURES_PER_KIND
    remember(database, "loud", range(1, most + 51))
    remember(database, "quiet", range(10_001, 10_011))

    database.write(lambda connection: finish_store.prune_history(connection, now=0))

    kept = [row["id"] for row in failures(app, kind="loud")]
    assert kept == list(range(51, most + 51))
    assert len(failures(app, kind="quiet")) == 10


def test_failures_of_a_task_come_newest_first(database):
    remember(database, "work", range(1, 31))

    found = database.read(lambda connection: finish_store.failures_of(connection, 1, limit=3))

    assert [each.id for each in found] == [30, 29, 28]


def test_old_statistics_and_alerts_are_forgotten(app, database):
    now = 100 * DAY
    minute = now // finish_store.MINUTE
    counts = {"kind": "k", "worker": 1, "done": 1, "failed": 0, "retried": 0, "milliseconds": 0}
    alarm = {"what": "poison", "text": "t"}
    database.write(
        lambda connection: connection.execute(
            insert(stat),
            [{"minute": minute, **counts}, {"minute": minute - 8 * 24 * 60, **counts}],
        )
    )
    database.write(
        lambda connection: connection.execute(
            insert(alert),
            [{"id": 1, "raised_at": now, **alarm}, {"id": 2, "raised_at": now - 31 * DAY, **alarm}],
        )
    )

    database.write(lambda connection: finish_store.prune_history(connection, now=now))
    database.write(lambda connection: alerts.prune(connection, now=now))

    assert count(app, stat) == 1
    assert [each.id for each in app.alerts()] == [1]


def test_workers_that_left_long_ago_are_forgotten_unless_a_row_speaks_of_them(app, database):
    now = 100 * DAY
    left = {1: now - 8 * DAY, 2: now - 8 * DAY, 3: now - DAY, 4: None}
    database.write(
        lambda connection: connection.execute(
            insert(worker_table),
            [
                {
                    "id": number,
                    "host": "h",
                    "pid": 1,
                    "lease_until": 0,
                    "joined_at": 0,
                    "left_at": left_at,
                    "kinds": '{"serves":[],"declares":[]}',
                }
                for number, left_at in left.items()
            ],
        )
    )
    write(database, new(1))
    database.write(
        lambda connection: connection.execute(table.update().values(status=1, worker=2, batch=None))
    )

    forgotten = database.write(lambda connection: ring_store.forget_workers(connection, now=now))

    there = database.read(lambda connection: connection.scalars(select(worker_table.c.id)).all())
    assert forgotten == 1
    assert sorted(there) == [2, 3, 4]

"""The plan of an upgrade: what it does, what it locks, and for about how long."""

from contextlib import closing

import pytest
from sqlalchemy import text

from tests.database.migration.next_release import ADDS, NEXT, next_release
from windlass import App
from windlass.database import migrate
from windlass.database.database import Database
from windlass.database.migration import plan

ROWS = 3_000


@pytest.fixture
def adding(tmp_path):
    return next_release(tmp_path, ADDS)


@pytest.fixture
def old_tables(empty_database_url):
    """Today's tables with some tasks; `adding` is pending."""
    database = Database(empty_database_url)
    migrate.migrate(database)
    with closing(App(empty_database_url)) as app:
        work = app.task(name="work")(lambda: None)
        work.enqueue_many([{}] * ROWS)
    yield database
    database.close()


def test_the_plan_names_each_step_and_what_waits_meanwhile(old_tables, adding):
    found = migrate.plan(old_tables, history=adding)

    is_sqlite = old_tables.dialect.name == "sqlite"
    assert [(step.version, step.operation, step.blocks) for step in found] == [
        (NEXT, "create table windlass_parcel", "nothing"),
        (NEXT, "create index windlass_parcel_note on windlass_parcel", "nothing"),
        (NEXT, "insert rows windlass_parcel", "nothing"),
        (
            NEXT,
            "create index windlass_task_started on windlass_task",
            "writes" if is_sqlite else "nothing",
        ),
        (
            NEXT,
            "add column colour on windlass_task",
            "writes" if is_sqlite else "reads and writes",
        ),
        (NEXT, "create view windlass_parcel_readable", "nothing"),
    ]
    assert all(step.is_online for step in found)
    assert migrate.current(old_tables) != NEXT


def test_the_plan_has_the_statements_that_run(old_tables, adding):
    index, column = (step.sql for step in migrate.plan(old_tables, history=adding)[3:5])

    said = {
        "sqlite": "CREATE INDEX windlass_task_started",
        "postgresql": "CREATE INDEX CONCURRENTLY windlass_task_started",
        "mysql": "algorithm=inplace lock=none",
    }[old_tables.dialect.name]
    assert said in index
    assert ("algorithm=instant" in column) == (old_tables.dialect.name == "mysql")


def test_a_large_table_takes_longer_and_sqlite_says_that_workers_wait(
    old_tables, adding, monkeypatch
):
    if old_tables.dialect.name == "postgresql":
        with old_tables.engine.begin() as connection:
            connection.execute(text("analyze windlass_task"))
    if old_tables.dialect.name == "mysql":
        with old_tables.engine.begin() as connection:
            connection.execute(text("analyze table windlass_task")).fetchall()
    slow = plan.PerDialect(sqlite=100, postgresql=100, mysql=100)
    monkeypatch.setattr(plan, "ROWS_PER_SECOND", slow)

    step = migrate.plan(old_tables, history=adding)[3]

    assert step.rows == pytest.approx(ROWS, rel=0.2)
    assert step.seconds == pytest.approx(ROWS / 100, rel=0.2)
    assert step.is_online == (old_tables.dialect.name != "sqlite")


def test_what_was_done_before_a_cut_is_not_planned_again(old_tables, adding):
    with old_tables.engine.begin() as connection:
        connection.execute(text("create index windlass_task_started on windlass_task (started_at)"))

    operations = [step.operation for step in migrate.plan(old_tables, history=adding)]

    assert len(operations) == 5
    assert not any("windlass_task_started" in operation for operation in operations)


def test_nothing_is_planned_when_nothing_is_pending(old_tables):
    assert migrate.plan(old_tables) == []


def test_an_empty_database_is_planned_whole(empty_database_url):
    with closing(Database(empty_database_url)) as database:
        found = migrate.plan(database)

        assert "create table windlass_task" in [step.operation for step in found]
        assert {step.blocks for step in found} == {"nothing"}

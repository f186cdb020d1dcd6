"""Migrations: older code goes on, a cut one continues, and there is a way back."""

import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from itertools import count

import pytest
from sqlalchemy import Engine, event, text

from tests.database.migration.next_release import ADDS, AFTER_NEXT, DROPS, NEXT, next_release
from tests.spawn import run_forked
from windlass import App, SchemaMismatch, Status
from windlass.database import migrate, version
from windlass.database.database import Database
from windlass.database.migration import run
from windlass.database.migration.catalog import Catalog
from windlass.database.migration.history import History
from windlass.database.migration.step import steps_of
from windlass.errors import BadInput, NotPossible

WRITING = ("create", "insert", "update", "delete", "alter", "drop")


@pytest.fixture
def empty(empty_database_url):
    database = Database(empty_database_url)
    yield database
    database.close()


@pytest.fixture
def adding(tmp_path):
    return next_release(tmp_path, ADDS)


@pytest.fixture
def old_tables(empty):
    """Tables as today's code makes them; `adding` is pending."""
    migrate.migrate(empty)
    return empty


def value(database, sql):
    return database.read(lambda connection: connection.execute(text(sql)).scalar())


def parts(database):
    """Everything in the catalog."""
    return database.read(lambda connection: Catalog(connection)._items)


# Who fits whom


def test_an_upgrade_that_only_adds_keeps_the_number_that_older_code_reads(old_tables, adding):
    before = value(old_tables, "select version_num from windlass_version")

    assert migrate.migrate(old_tables, history=adding) == NEXT

    assert value(old_tables, "select version_num from windlass_version") == before == "0001"
    migrate.check(old_tables)
    assert migrate.current(old_tables) == NEXT


def test_code_works_with_tables_ahead_and_migrating_changes_nothing(old_tables, adding):
    migrate.migrate(old_tables, history=adding)
    app = App(old_tables.url)

    @app.task(keep="1h")
    def work(number: int) -> int:
        return number

    with closing(app):
        ref = work.enqueue(7)
        app.drain()
        assert ref.result() == 7
        assert app.migrate() == NEXT


def test_tables_that_lost_what_older_code_needs_are_refused(old_tables, tmp_path):
    history = next_release(tmp_path, ADDS, DROPS)

    migrate.migrate(old_tables, history=history)

    assert value(old_tables, "select version_num from windlass_version") == NEXT
    with pytest.raises(SchemaMismatch, match=f"version {NEXT}, newer than the {version.VERSION}"):
        migrate.check(old_tables)


def test_sqlite_by_itself_stops_before_what_older_processes_do_not_survive(old_tables, tmp_path):
    history = next_release(tmp_path, ADDS, DROPS)

    migrate.migrate(old_tables, history=history, only_additions=True)

    assert migrate.current(old_tables) == NEXT
    migrate.check(old_tables)


def test_tables_of_the_first_release_have_no_log_and_get_one(old_tables):
    with old_tables.engine.begin() as connection:
        connection.execute(text("drop table windlass_migration"))
    if version.VERSION == "0001":
        assert migrate.current(old_tables) == "0001"
        migrate.check(old_tables)

    assert migrate.migrate(old_tables) == version.VERSION

    rows = old_tables.read(
        lambda connection: connection.execute(
            text("select version from windlass_migration where ended_at >= began_at")
        ).fetchall()
    )
    assert next(row[0] for row in rows) == "0001"


def test_a_callers_own_transaction_on_sqlite_does_not_wait_for_the_upgrade(tmp_path):
    url = f"sqlite:///{tmp_path}/shop.db"
    with closing(Database(url)) as database:
        migrate.migrate(database)
        with database.engine.begin() as connection:
            connection.execute(text("drop table windlass_migration"))
    app = App(url)
    work = app.task(name="work", keep="1h")(lambda: None)

    with closing(app), closing(sqlite3.connect(tmp_path / "shop.db")) as raw:
        raw.execute("begin immediate")
        ref = work.using(conn=raw).enqueue()
        raw.commit()
        app.drain()
        assert ref.status() is Status.SUCCEEDED

    with closing(App(url)) as later:
        later.prepare()
        assert later.database.schema.look().has_log


def test_the_version_is_the_number_of_the_newest_file():
    assert History().newest == version.VERSION
    assert version.OLDEST <= version.VERSION
    assert all(
        each in {m.version for m in History().migrations} for each in version.RELEASES.values()
    )


def test_every_migration_after_the_first_can_be_planned_and_taken_back(empty):
    with empty.engine.connect() as connection:
        for migration in History().migrations[1:]:
            steps = steps_of(migration, connection.dialect)
            drops = [step.words for step in steps if step.verb.is_drop]
            # Only a migration that says so may break older code.
            assert (migration.known_from is not None) == bool(drops), drops


# Asking for a version


def test_has_says_which_migrations_the_tables_have(old_tables, adding):
    assert old_tables.schema.has(version.VERSION)
    assert not old_tables.schema.has(NEXT)
    with pytest.raises(SchemaMismatch, match=f"tokens needs tables of version {NEXT}.*migrate"):
        old_tables.schema.need(NEXT, "tokens")

    migrate.migrate(old_tables, history=adding)

    assert old_tables.schema.has(NEXT)
    old_tables.schema.need(NEXT, "tokens")
    assert old_tables.reserved.schema is old_tables.schema


def test_a_running_process_notices_that_tables_were_migrated(old_tables, adding, monkeypatch):
    other = Database(old_tables.url)
    assert not other.schema.has(NEXT)
    migrate.migrate(old_tables, history=adding)
    assert not other.schema.has(NEXT)

    monkeypatch.setattr(version, "LOOK_AGAIN_SECONDS", 0.0)

    assert other.schema.has(NEXT)
    other.close()


def test_has_costs_no_statement_once_the_tables_have_the_version(old_tables):
    assert old_tables.schema.has(version.VERSION)
    said = []

    @event.listens_for(Engine, "before_cursor_execute")
    def listen(*arguments):
        said.append(arguments[2])

    try:
        assert all(old_tables.schema.has(version.VERSION) for _ in range(1_000))
    finally:
        event.remove(Engine, "before_cursor_execute", listen)
    assert said == []


# Cut off


class Cut(Exception):
    """The process died here."""


@contextmanager
def cut_after(statements):
    """Cut the connection after so many statements that write."""
    left = [statements]

    @event.listens_for(Engine, "after_cursor_execute")
    def listen(connection, _cursor, statement, *_more):
        if statement.strip().lower().startswith(WRITING):
            left[0] -= 1
            if left[0] == 0:
                connection.invalidate()
                raise Cut

    try:
        yield
    finally:
        event.remove(Engine, "after_cursor_execute", listen)


def migrate_by_pieces(database, history):
    """Cut after each statement that took effect; returns how many statements did."""
    # A transaction is undone by a cut, so the next one may go further.
    further = 1 if database.dialect.name == "mysql" else 7
    allowed, kept = 1, 0
    while True:
        before = parts(database)
        try:
            with cut_after(allowed):
                migrate.migrate(database, history=history)
            return kept
        except Cut:
            has_progressed = parts(database) != before
            kept += has_progressed
            allowed = 1 if has_progressed else allowed + further


def test_creating_the_tables_continues_after_a_cut_at_every_statement(empty, adding):
    kept = migrate_by_pieces(empty, adding)

    def missing(connection):
        catalog = Catalog(connection)
        steps = [step for each in adding.migrations for step in steps_of(each, connection.dialect)]
        assert len(steps) > 60
        return [step.words for step in steps if not catalog.is_done(step)]

    assert empty.read(missing) == []
    # These servers commit each statement on tables by itself, so each was a place to continue.
    assert kept > 60 or empty.dialect.name != "mysql"
    assert migrate.current(empty) == NEXT
    assert value(empty, "select count(*) from windlass_bucket") == 256
    assert value(empty, "select count(*) from windlass_shard") == 1
    assert value(empty, "select count(*) from windlass_number") == 1
    assert value(empty, "select count(*) from windlass_parcel") == 2


def test_a_half_made_database_says_so_instead_of_working(empty):
    with pytest.raises(Cut), cut_after(12):
        migrate.migrate(empty)

    if empty.dialect.name == "mysql":
        with pytest.raises(SchemaMismatch, match="being created, or were not finished; run:"):
            migrate.check(empty)
    else:
        with pytest.raises(SchemaMismatch, match=r"being created|no Windlass tables yet"):
            migrate.check(empty)


def test_code_goes_on_beside_a_migration_that_was_cut_half_way(old_tables, adding):
    for statements in count(1):
        with cut_after(statements):
            try:
                migrate.migrate(old_tables, history=adding)
                break
            except Cut:
                pass
        migrate.check(old_tables)
        assert not old_tables.schema.has(NEXT)
        migrate.downgrade(old_tables, to=version.VERSION, history=adding)

    assert statements > 5
    assert old_tables.schema.has(NEXT)


CHILD = f"""
import os, sys
from pathlib import Path
from sqlalchemy import Engine, event
from windlass.database import migrate
from windlass.database.database import Database
from windlass.database.migration.history import History

url, folder, left = sys.argv[1], sys.argv[2], int(sys.argv[3])

@event.listens_for(Engine, "after_cursor_execute")
def listen(connection, cursor, statement, *more):
    global left
    if statement.strip().lower().startswith({WRITING!r}):
        left -= 1
        if left == 0:
            os._exit(9)

migrate.migrate(Database(url), history=History(Path(folder)))
"""


@pytest.mark.mostly("mariadb")
def test_killing_the_process_after_any_statement_loses_nothing(
    old_tables, empty_database_url, adding
):
    for statements in count(1):
        command = [sys.executable, "-c", CHILD, empty_database_url]
        command += [str(adding._folder), str(statements)]
        done = run_forked(command, check=False)
        assert done.returncode in (0, 9), done.stderr
        if done.returncode == 0:
            break
        if statements % 3 == 0:
            # Also from the state that the kill left behind.
            migrate.migrate(old_tables, history=adding)
            assert value(old_tables, "select count(*) from windlass_parcel") == 2
        migrate.downgrade(old_tables, to=version.VERSION, history=adding)

    assert statements > 5
    assert migrate.current(old_tables) == NEXT
    assert value(old_tables, "select count(*) from windlass_parcel") == 2


# The way back


def test_an_upgrade_can_be_taken_back(old_tables, adding):
    before = parts(old_tables)
    migrate.migrate(old_tables, history=adding)
    assert parts(old_tables) != before

    assert migrate.downgrade(old_tables, to=version.VERSION, history=adding) == version.VERSION

    assert parts(old_tables) == before
    assert not old_tables.schema.has(NEXT)
    assert migrate.migrate(old_tables, history=adding) == NEXT


def test_what_was_dropped_cannot_be_taken_back(old_tables, tmp_path):
    history = next_release(tmp_path, ADDS, DROPS)
    migrate.migrate(old_tables, history=history)

    with pytest.raises(NotPossible, match="cannot be taken back; restore a backup"):
        migrate.downgrade(old_tables, to=NEXT, history=history)

    assert migrate.current(old_tables) == AFTER_NEXT


@pytest.mark.parametrize("wrong", ["0000", "7777", "x"])
def test_the_tables_go_back_only_to_a_version_that_is_known(old_tables, wrong):
    with pytest.raises(BadInput, match="is not known"):
        migrate.downgrade(old_tables, to=wrong)


def test_an_operation_that_cannot_be_repeated_is_refused(old_tables, tmp_path):
    text = (
        ADDS[: ADDS.index("    parcel")] + '    op.execute("update windlass_task set lost = 0")\n'
    )
    history = next_release(tmp_path, text)

    with pytest.raises(NotPossible, match="nobody can tell from the catalog whether 'update"):
        migrate.migrate(old_tables, history=history)

    assert migrate.current(old_tables) == version.VERSION


def test_a_column_that_older_code_would_have_to_fill_is_refused(old_tables, tmp_path):
    text = ADDS.replace(
        'Column("colour", String(20))', 'Column("colour", String(20), nullable=False)'
    )

    with pytest.raises(NotPossible, match="older code does not fill column 'colour'"):
        migrate.migrate(old_tables, history=next_release(tmp_path, text))


# One at a time


def test_two_that_migrate_at_once_do_it_once(old_tables, empty_database_url, adding, monkeypatch):
    databases = [Database(empty_database_url) for _ in range(4)]
    # Threads of one process take turns by this lock; these come as processes do.
    monkeypatch.setattr(run, "ONE_AT_A_TIME", nullcontext())

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda each: migrate.migrate(each, history=adding), databases))

    assert found == [NEXT] * 4
    assert value(old_tables, "select count(*) from windlass_parcel") == 2
    for each in databases:
        each.close()

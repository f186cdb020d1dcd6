"""Migrations on servers: nobody who works waits behind one for long, and one process migrates."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from tests.database.migration.next_release import ADDS, NEXT, next_release
from tests.fixture.database import ENGINES, pool_of
from tests.server import PgBouncer, ServerMissing
from tests.wait import eventually
from windlass.database import migrate, version
from windlass.database.database import Database
from windlass.database.migration import run
from windlass.errors import DatabaseUnavailable

SERVERS = [engine for engine in ENGINES if engine != "sqlite"]

BUILDING = """
select pid from pg_stat_activity
where query ilike '%index concurrently%' and wait_event_type = 'Lock' and datname = :name
"""


@pytest.fixture
def adding(tmp_path):
    return next_release(tmp_path, ADDS)


@pytest.fixture
def make_database(pools, pytestconfig):
    """Makes today's tables on a server, where `adding` is pending."""
    with ExitStack() as stack:

        def make(engine):
            url = stack.enter_context(pool_of(engine, pools, pytestconfig).empty())
            database = Database(url)
            stack.callback(database.close)
            migrate.migrate(database)
            return database

        yield make


@pytest.fixture(params=SERVERS)
def on_server(request, make_database):
    return make_database(request.param)


@pytest.fixture
def on_postgresql(make_database):
    return make_database("postgresql")


@pytest.fixture(params=[server for server in SERVERS if server != "postgresql"])
def on_mysql(request, make_database):
    return make_database(request.param)


@contextmanager
def someone(database):
    """Another client, in a transaction that it does not end."""
    engine = create_engine(database.url)
    with engine.connect() as connection, connection.begin():
        yield connection
    engine.dispose()


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(run, "LOCK_SECONDS", 1)
    monkeypatch.setattr(run, "LOCK_TRIES", 2)
    monkeypatch.setattr(run, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(run, "TURN_SECONDS", 1)


@pytest.mark.usefixtures("impatient")
def test_a_table_that_is_locked_for_long_ends_the_migration_with_the_cure(on_server, adding):
    with someone(on_server) as reader:
        reader.execute(text("select count(*) from windlass_task"))

        with pytest.raises(DatabaseUnavailable, match=r"waited 2 times for 1 s.*where it stopped"):
            migrate.migrate(on_server, history=adding)

    assert migrate.migrate(on_server, history=adding) == NEXT


def test_while_an_index_is_built_others_read_and_write(on_postgresql, adding):
    database = on_postgresql

    def is_building(connection):
        return connection.execute(text(BUILDING), {"name": database.url.database}).scalar()

    with ThreadPoolExecutor(1) as thread, someone(database) as writer:
        writer.execute(text("lock table windlass_task in row exclusive mode"))
        migrated = thread.submit(migrate.migrate, database, history=adding)
        eventually(lambda: database.read(is_building) is not None)

        with someone(database) as other:
            other.execute(text("set local lock_timeout = '1s'"))
            other.execute(text("update windlass_task set remark = 'written meanwhile'"))
            other.execute(text("select count(*) from windlass_task"))
        assert not migrated.done()
        writer.rollback()

        assert migrated.result(timeout=60) == NEXT


def test_an_index_whose_build_was_cut_off_is_built_again(on_postgresql, adding):
    database = on_postgresql

    def cut(connection):
        return connection.execute(
            text(f"select pg_terminate_backend(pid) from ({BUILDING}) building"),
            {"name": database.url.database},
        ).scalar()

    def validity(connection):
        return connection.execute(
            text(
                "select indisvalid from pg_index "
                "where indexrelid = to_regclass('windlass_task_started')"
            )
        ).scalar()

    with ThreadPoolExecutor(1) as thread, someone(database) as writer:
        writer.execute(text("lock table windlass_task in row exclusive mode"))
        migrated = thread.submit(migrate.migrate, database, history=adding)
        eventually(lambda: database.read(cut))
        assert database.read(validity) is False
        writer.rollback()

        assert migrated.result(timeout=60) == NEXT

    assert database.read(validity) is True


@pytest.mark.usefixtures("impatient")
def test_whoever_waits_too_long_for_another_that_migrates_is_told(on_server, adding):
    lock = "select pg_advisory_xact_lock(2026111501)"
    if on_server.dialect.name == "mysql":
        lock = f"select get_lock({run.LOCK_NAME}, 0)"
    with someone(on_server) as other:
        other.execute(text(lock))

        with pytest.raises(DatabaseUnavailable, match="another process is migrating it"):
            migrate.migrate(on_server, history=adding)
        assert migrate.current(on_server) == version.VERSION

    assert migrate.migrate(on_server, history=adding) == NEXT


def test_a_lock_that_the_server_cannot_give_is_an_error(on_mysql, adding, monkeypatch):
    monkeypatch.setattr(run, "LOCK_NAME", "null")

    # MySQL 9 refuses the name itself; MariaDB answers with null.
    refused = (DatabaseUnavailable, DBAPIError)
    with pytest.raises(refused, match=r"get_lock returned null|user-level lock name 'NULL'"):
        migrate.migrate(on_mysql, history=adding)


def test_a_pooler_may_be_in_between(on_postgresql, adding):
    place = urlsplit(on_postgresql.url.render_as_string(hide_password=False))
    try:
        pooler = PgBouncer(place.port)
    except ServerMissing as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(error.reason)
    with pooler:
        pooled = Database(pooler.url_of(place.path.lstrip("/")))
        assert migrate.migrate(pooled, history=adding) == NEXT
        assert migrate.downgrade(pooled, to=version.VERSION, history=adding) == version.VERSION
        pooled.close()

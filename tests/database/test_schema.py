"""The tables: migrations make what the schema says, once, and nobody works on other tables."""

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pymysql
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text

from tests.fixture.database import name_in, pool_of
from tests.spawn import Forked
from windlass import App, SchemaMismatch
from windlass.database import migrate
from windlass.database.database import Database
from windlass.database.schema import metadata


@pytest.fixture
def empty(empty_database_url):
    database = Database(empty_database_url)
    yield database
    database.close()


@pytest.fixture
def migrated(database_url):
    database = Database(database_url)
    yield database
    database.close()


def differences(database):
    """What alembic would change to make the tables those of the schema."""
    # An engine of our own: Windlass's reads JSON as text, which reflection does not expect.
    engine = create_engine(database.url)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "version_table": migrate.VERSION_TABLE}
        )
        found = compare_metadata(context, metadata)
    engine.dispose()
    return found


def test_the_migrations_make_exactly_the_tables_of_the_schema(empty):
    migrate.migrate(empty)

    assert differences(empty) == []


def test_the_migrations_make_the_same_indexes_with_the_same_columns(empty):
    migrate.migrate(empty)

    found = {}
    with empty.engine.connect() as connection:
        for table in metadata.tables.values():
            for index in inspect(connection).get_indexes(table.name):
                found[index["name"]] = (index["column_names"], bool(index["unique"]))
    declared = {
        index.name: ([column.name for column in index.columns], bool(index.unique))
        for table in metadata.tables.values()
        for index in table.indexes
    }

    assert {name: found.get(name) for name in declared} == declared


def test_every_table_begins_with_the_prefix(migrated):
    with migrated.engine.connect() as connection:
        names = inspect(connection).get_table_names()

    assert [name for name in names if not name.startswith("windlass_")] == []
    assert set(metadata.tables) <= set(names)


def test_migrating_twice_changes_nothing(empty):
    assert migrate.current(empty) is None
    assert migrate.migrate(empty) == migrate.VERSION
    empty.write(
        lambda connection: connection.execute(
            text("insert into windlass_number (name, next) values ('mine', 7)")
        )
    )

    assert migrate.migrate(empty) == migrate.VERSION

    assert migrate.current(empty) == migrate.VERSION
    kept = empty.read(
        lambda connection: connection.scalar(
            text("select next from windlass_number where name = 'mine'")
        )
    )
    assert kept == 7


def test_many_may_migrate_at_once(empty_database_url):
    def migrate_once(_):
        with closing(App(empty_database_url)) as app:
            return app.migrate()

    with ThreadPoolExecutor(6) as threads:
        versions = list(threads.map(migrate_once, range(6)))

    assert versions == [migrate.VERSION] * 6


def test_processes_may_migrate_at_once(empty_database_url):
    code = f"from windlass import App; print(App({empty_database_url!r}).migrate())"
    processes = [
        Forked([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]

    said = [process.communicate(timeout=60)[0].strip() for process in processes]

    assert said == [migrate.VERSION] * 3
    assert [process.returncode for process in processes] == [0, 0, 0]


def set_version(database, version):
    database.write(
        lambda connection: connection.execute(
            text("update windlass_version set version_num = :version"), {"version": version}
        )
    )


@pytest.fixture
def with_version(empty):
    """An app on tables that say they are of another version."""
    migrate.migrate(empty)

    def make(version):
        set_version(empty, version)
        app = App(empty.url)

        @app.task
        def work() -> None: ...

        return app, work

    return make


def test_tables_of_a_newer_version_are_refused(with_version, empty):
    app, work = with_version("9999")

    with closing(app):
        for use in (work.enqueue, app.drain, app.alerts, app.migrate):
            with pytest.raises(SchemaMismatch, match=r"version 9999, newer .* upgrade Windlass"):
                use()

    assert migrate.current(empty) == "9999"


def test_tables_of_an_older_version_are_refused_until_they_are_migrated(with_version, empty):
    app, work = with_version("0000")

    with closing(app), pytest.raises(SchemaMismatch, match="has tables of version 0000"):
        work.enqueue()

    count = empty.read(
        lambda connection: connection.scalar(text("select count(*) from windlass_task"))
    )
    assert count == 0


def test_missing_tables_are_refused_where_they_do_not_make_themselves(empty):
    if empty.dialect.name == "sqlite":
        migrate.migrate(empty)
        migrate.check(empty)
        assert migrate.current(empty) == migrate.VERSION
        return

    with pytest.raises(SchemaMismatch, match="has no Windlass tables yet; run: windlass migrate"):
        migrate.check(empty)


def execute_script(url, script):
    """Run SQL text as a person with a shell does."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as raw:
            raw.executescript(script)
    elif url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as raw:
            raw.execute(script)
    else:
        database = Database(url)
        raw = pymysql.connect(
            host=database.url.host,
            port=database.url.port,
            user=database.url.username,
            password=database.url.password or "",
            database=name_in(url),
            client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS,
        )
        with closing(raw), raw.cursor() as cursor:
            cursor.execute(script)
            while cursor.nextset():
                pass
            raw.commit()


def test_the_printed_sql_makes_the_same_tables_in_an_empty_database(empty, empty_database_url):
    execute_script(empty_database_url, migrate.script(empty))

    assert migrate.current(empty) == migrate.VERSION
    assert differences(empty) == []
    with closing(App(empty_database_url)) as app:

        @app.task
        def work() -> int:
            return 7

        ref = work.enqueue()
        app.drain()
        assert ref.result() == 7


def test_the_printed_sql_for_mariadb_by_name_is_mariadbs(empty_mariadb):
    by_name = Database(empty_mariadb.replace("mysql", "mariadb", 1))

    execute_script(empty_mariadb, migrate.script(by_name))

    assert migrate.current(by_name) == migrate.VERSION
    by_name.close()


@pytest.fixture
def empty_mariadb(pools, pytestconfig):
    with pool_of("mariadb", pools, pytestconfig).empty() as url:
        yield url


def test_people_can_read_the_tasks_in_a_sql_shell(database_url):
    with closing(App(database_url)) as app:

        @app.task
        def work(name: str) -> None: ...

        ref = work.using(key="k", priority=3).enqueue("ada")
        ref.cancel("no more")

        row = app.database.read(
            lambda connection: (
                connection.execute(text("select * from windlass_task_readable")).mappings().one()
            )
        )

    assert (row["id"], row["kind"], row["task_key"]) == (ref.id, "work", "k")
    assert (row["status"], row["priority"], row["remark"]) == ("cancelled", 3, "no more")
    assert str(row["created_at"])[:2] == "20"
    assert row["due_at"] is None


def test_the_readable_times_are_the_right_ones(database_url):
    with closing(App(database_url)) as app:

        @app.task
        def work() -> None: ...

        work.enqueue()
        seconds = {
            "sqlite": "strftime('%s', created_at) + 0",
            "postgresql": "extract(epoch from created_at)",
            "mysql": "unix_timestamp(created_at)",
        }[app.database.dialect.name]
        shown, stored = app.database.read(
            lambda connection: connection.execute(
                text(
                    f"select r.shown, t.created_at from windlass_task t join "
                    f"(select id, {seconds} as shown from windlass_task_readable) r on r.id = t.id"
                )
            ).one()
        )

    assert abs(float(shown) - stored / 1_000_000) < 1.0

"""`conn=`: a task that exists only if the caller's own transaction commits."""

import sqlite3
from contextlib import closing

import psycopg
import pymysql
import pytest
from sqlalchemy import create_engine, text

from tests.connecting import WAYS, async_engine, opened, raw_connection
from tests.table import count, tasks
from windlass import BadConnection, DuplicateKey, Status, TaskNotFound
from windlass.database.database import normalise


@pytest.fixture
def calls():
    return []


@pytest.fixture
def note(app, calls):
    @app.task
    def note(text: str) -> None:
        calls.append(text)

    app.prepare()
    return note


@pytest.fixture
def engine(database_url):
    engine = create_engine(normalise(database_url))
    yield engine
    engine.dispose()


@pytest.mark.parametrize("way", WAYS)
def test_a_task_exists_once_the_caller_commits(app, note, calls, engine, database_url, way):
    with opened(way, engine, database_url) as conn:
        ref = note.using(conn=conn).enqueue("mine")
        assert count(app) == 0
        conn.commit()

    assert [row["id"] for row in tasks(app)] == [ref.id]
    app.drain()
    assert calls == ["mine"]


@pytest.mark.parametrize("way", WAYS)
def test_a_task_never_was_if_the_caller_rolls_back(app, note, calls, engine, database_url, way):
    with opened(way, engine, database_url) as conn:
        note.using(conn=conn).enqueue("mine")
        note.using(conn=conn, key="k").enqueue("keyed")
        note.using(conn=conn).enqueue_many([{"text": "a"}, {"text": "b"}])
        conn.rollback()

    app.drain()
    assert calls == []
    assert count(app) == 0


@pytest.mark.parametrize("way", WAYS)
def test_many_tasks_and_keys_join_too(app, note, engine, database_url, way):
    held = note.using(key="held").enqueue("before")

    with opened(way, engine, database_url) as conn:
        joined = note.using(conn=conn)
        refs = joined.enqueue_many(
            [{"text": f"t{number}"} for number in range(200)],
            keys=["held", *(f"k{number}" for number in range(199))],
        )
        replaced = joined.using(key="k5", on_conflict="replace").enqueue("new")
        conn.commit()

    assert refs[0] == held
    assert replaced == refs[6]
    assert count(app) == 200
    assert tasks(app, task_key="k5")[0]["payload"] == '{"text":"new"}'


def test_the_task_and_the_callers_own_rows_are_one_transaction(app, note, engine):
    with engine.begin() as connection:
        connection.execute(text("create table customer (name varchar(20))"))

    with engine.connect() as connection:
        connection.execute(text("insert into customer values ('ada')"))
        note.using(conn=connection).enqueue("ada")
        connection.rollback()
    with engine.connect() as connection:
        connection.execute(text("insert into customer values ('grace')"))
        note.using(conn=connection).enqueue("grace")
        connection.commit()

    with engine.connect() as connection:
        names = connection.scalars(text("select name from customer")).all()
    assert names == ["grace"]
    assert [row["payload"] for row in tasks(app)] == ['{"text":"grace"}']


def test_a_taken_key_that_raises_leaves_the_callers_transaction_usable(app, note, engine):
    note.using(key="k").enqueue("first")

    with engine.connect() as connection:
        with pytest.raises(DuplicateKey):
            note.using(conn=connection, key="k", on_conflict="raise").enqueue("second")
        note.using(conn=connection, key="other").enqueue("third")
        connection.commit()

    assert [row["task_key"] for row in tasks(app)] == ["k", "other"]


def test_a_task_that_is_not_committed_is_not_called_succeeded(app, note, engine):
    with engine.connect() as connection:
        ref = note.using(conn=connection).enqueue("x")
        with pytest.raises(TaskNotFound):
            ref.status()
        with pytest.raises(TaskNotFound):
            ref.result(timeout=0)
        connection.rollback()

    with pytest.raises(TaskNotFound):
        ref.status()


def test_a_task_that_was_committed_has_its_status(app, note, engine):
    with engine.connect() as connection:
        ref = note.using(conn=connection).enqueue("x")
        connection.commit()

    assert ref.status() is Status.WAITING


async def test_a_sync_connection_may_be_joined_from_a_coroutine(app, note, engine):
    with engine.connect() as connection:
        await note.using(conn=connection).aenqueue("x")
        assert count(app) == 0
        connection.commit()

    assert count(app) == 1


@pytest.mark.parametrize("way", ["AsyncConnection", "AsyncSession"])
@pytest.mark.parametrize("ending", ["commit", "rollback"])
async def test_async_connections_and_sessions_are_joined(
    app, note, calls, database_url, way, ending
):
    engine = async_engine(database_url)
    from sqlalchemy.ext.asyncio import AsyncSession

    opened = engine.connect() if way == "AsyncConnection" else AsyncSession(engine)
    async with opened as conn:
        await note.using(conn=conn).aenqueue("one")
        await note.using(conn=conn).aenqueue_many([{"text": "two"}], keys=["k"])
        assert count(app) == 0
        await (conn.commit() if ending == "commit" else conn.rollback())
    await engine.dispose()

    await app.adrain()
    assert calls == (["one", "two"] if ending == "commit" else [])


async def test_an_async_connection_needs_the_async_twin(app, note, database_url):
    engine = async_engine(database_url)

    async with engine.connect() as conn:
        with pytest.raises(BadConnection, match="await the method whose name starts with a"):
            note.using(conn=conn).enqueue("x")
    await engine.dispose()

    assert count(app) == 0


@pytest.mark.parametrize("conn", ["sqlite:///shop.db", object(), 7])
def test_what_is_not_a_connection_is_refused(app, note, conn):
    with pytest.raises(BadConnection, match="is not a connection; give a SQLAlchemy Connection"):
        note.using(conn=conn).enqueue("x")

    assert count(app) == 0


@pytest.mark.parametrize("way", ["Connection", "raw"])
def test_a_connection_to_a_database_without_our_tables_is_refused(
    app, note, empty_database_url, way
):
    elsewhere = create_engine(normalise(empty_database_url))
    with opened(way, elsewhere, empty_database_url) as conn:
        with pytest.raises(BadConnection, match="has no Windlass tables"):
            note.using(conn=conn).enqueue("x")
        conn.rollback()
    elsewhere.dispose()

    assert count(app) == 0


def test_an_engine_is_not_a_connection(app, note, engine):
    with pytest.raises(BadConnection, match="is not a connection"):
        note.using(conn=engine).enqueue("x")

    assert count(app) == 0


def test_a_cursor_is_not_a_connection(app, note, database_url):
    with closing(raw_connection(database_url)) as raw, pytest.raises(BadConnection):
        note.using(conn=raw.cursor()).enqueue("x")

    assert count(app) == 0


async def test_an_async_connection_of_psycopg_is_refused(postgresql_url, clock):
    from windlass import App

    with closing(App(postgresql_url, clock=clock)) as app:

        @app.task
        def note(text: str) -> None: ...

        async with await psycopg.AsyncConnection.connect(postgresql_url) as conn:
            with pytest.raises(BadConnection):
                await note.using(conn=conn).aenqueue("x")

        assert count(app) == 0


def test_a_connection_of_another_database_is_refused(app, note, database_engine, pools):
    other = "postgresql" if database_engine == "sqlite" else "sqlite"

    with (
        pools.of(other).migrated() as url,
        closing(raw_connection(url)) as raw,
        pytest.raises(BadConnection, match=f"keeps its tasks in {app.database.dialect.name}"),
    ):
        note.using(conn=raw).enqueue("x")

    assert count(app) == 0


def test_a_key_that_an_old_snapshot_cannot_see_is_still_met(app, note, database_url):
    if database_url.startswith("sqlite"):
        pytest.skip("a SQLite transaction that reads an old snapshot cannot write at all")
    if database_url.startswith("postgresql"):
        pytest.skip("PostgreSQL refuses such a write by itself in REPEATABLE READ")

    with closing(raw_connection(database_url)) as raw:
        with raw.cursor() as cursor:
            cursor.execute("select count(*) from windlass_task")
        held = note.using(key="k").enqueue("first")
        if refuses_old_snapshots(raw):
            with pytest.raises(pymysql.err.OperationalError, match="Record has changed"):
                note.using(key="k", conn=raw).enqueue("second")
            raw.rollback()
            return
        ref = note.using(key="k", conn=raw).enqueue("second")
        raw.commit()

    assert ref == held
    assert count(app) == 1


def refuses_old_snapshots(raw: pymysql.Connection) -> bool:
    """Whether a write on an old snapshot is an error by itself, as in MariaDB from 11.6.2 on."""
    with raw.cursor() as cursor:
        cursor.execute("show variables like 'innodb_snapshot_isolation'")
        found = cursor.fetchall()
    return bool(found) and found[0][1] == "ON"


def test_rows_of_a_raw_connection_may_come_as_mappings(app, note, database_url):
    held = note.using(key="k").enqueue("first")

    with closing(raw_connection(database_url)) as raw:
        if isinstance(raw, sqlite3.Connection):
            raw.row_factory = sqlite3.Row
        elif isinstance(raw, psycopg.Connection):
            raw.row_factory = psycopg.rows.dict_row
        else:
            raw.cursorclass = pymysql.cursors.DictCursor
        ref = note.using(key="k", conn=raw).enqueue("second")
        note.using(conn=raw).enqueue("third")
        raw.commit()

    assert ref == held
    assert count(app) == 2

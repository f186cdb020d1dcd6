"""The sink: what was written into a target database is written there once."""

import threading
from contextlib import closing

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from tests.core.task.test_conn import WAYS, opened, raw_connection
from windlass import BadConnection, BadInput, asink_many, make_sink, sink, sink_many
from windlass.database import sink as module
from windlass.database.database import normalise

pytestmark = pytest.mark.everywhere


@pytest.fixture
def engine(empty_database_url):
    engine = create_engine(normalise(empty_database_url))
    with engine.begin() as connection:
        connection.execute(text("create table book (code varchar(20))"))
    yield engine
    with engine.begin() as connection:
        connection.execute(text("drop table book"))
        connection.execute(text("drop table if exists windlass_sink"))
    engine.dispose()


def book(engine):
    with engine.connect() as connection:
        return sorted(connection.scalars(text("select code from book")))


def write(conn, code):
    statement = f"insert into book values ('{code}')"
    if hasattr(conn, "cursor"):
        conn.cursor().execute(statement)
    else:
        conn.execute(text(statement))


@pytest.mark.parametrize("way", WAYS)
def test_an_id_is_new_once_and_only_if_it_was_committed(engine, empty_database_url, way):
    url = empty_database_url
    with closing(raw_connection(url)) as conn:
        make_sink(conn)
        conn.commit()

    answers = []
    for end in ("rollback", "commit", "commit"):
        with opened(way, engine, url) as conn:
            answers.append(sink(conn, 7))
            if answers[-1]:
                write(conn, end)
            getattr(conn, end)()

    assert answers == [True, True, False]
    assert book(engine) == ["commit"]


@pytest.mark.parametrize("way", ["Connection", "Session"])
def test_the_table_is_made_when_it_is_needed(engine, empty_database_url, way):
    for wanted in (True, False):
        with opened(way, engine, empty_database_url) as conn:
            assert sink(conn, "order-7") is wanted
            conn.commit()


def test_a_raw_connection_makes_the_table_or_says_how(engine, empty_database_url):
    with closing(raw_connection(empty_database_url)) as conn:
        if engine.dialect.name != "mysql":
            assert sink(conn, "order-7")
            return
        with pytest.raises(BadConnection, match=r"call windlass\.make_sink\(conn\) once before"):
            sink(conn, "order-7")
        make_sink(conn)
        assert sink(conn, "order-7")


def test_of_many_ids_the_new_ones_are_returned_in_their_order(engine):
    with engine.begin() as conn:
        assert sink_many(conn, ["b", "a", "b"]) == ["b", "a"]
    with engine.begin() as conn:
        assert sink_many(conn, ["c", "a", "d"]) == ["c", "d"]
        assert sink_many(conn, ["c", "e"]) == ["e"]
        assert sink_many(conn, []) == []
    with engine.begin() as conn:
        assert sink_many(conn, range(2_500)) == list(range(2_500))
        assert sink_many(conn, range(2_499, 2_502)) == [2_500, 2_501]


def test_equal_ids_of_other_sets_are_others(engine):
    with engine.begin() as conn:
        assert sink(conn, 1)
        assert sink(conn, 1, of="prices")
        assert not sink(conn, "1", of="prices")


def test_two_transactions_with_one_id_do_not_both_write(engine):
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    answers = []
    with engine.begin() as conn:
        sink(conn, "before")

    def second():
        with engine.begin() as conn:
            answers.append(sink(conn, 7))

    with engine.connect() as first:
        assert sink(first, 7)
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        first.commit()
    thread.join(20)

    assert answers == [False]


def test_old_ids_are_forgotten_and_young_ones_stay(engine, monkeypatch):
    monkeypatch.setattr(module, "PRUNE_SECONDS", 0.0)
    with engine.begin() as conn:
        sink_many(conn, ["old", "young"])
        old = module._hash("", "old")
        conn.execute(text(f"update windlass_sink set done_at = 0 where id = '{old}'"))
    with engine.begin() as conn:
        sink(conn, "another")

    with engine.begin() as conn:
        assert sink_many(conn, ["old", "young"]) == ["old"]


@pytest.mark.parametrize("given", ["", None, True, 1.5, b"x"])
def test_what_is_no_id_is_refused(engine, given):
    with engine.begin() as conn, pytest.raises(BadInput, match="is neither text nor a number"):
        sink(conn, given)


def test_a_connection_that_commits_each_statement_is_refused(engine):
    alone = engine.execution_options(isolation_level="AUTOCOMMIT")
    refused = pytest.raises(BadConnection, match="commits each statement by itself")
    with alone.connect() as conn, refused:
        sink(conn, 1)


def test_what_is_no_connection_is_refused():
    with pytest.raises(BadConnection, match="is not a connection"):
        sink(object(), 1)


async def test_an_async_session_awaits_it(engine, empty_database_url):
    drivers = {
        "sqlite": "sqlite+aiosqlite",
        "postgresql": "postgresql+psycopg",
        "mysql": "mysql+aiomysql",
    }
    target = create_async_engine(engine.url.set(drivername=drivers[engine.dialect.name], query={}))
    async with AsyncSession(target) as session:
        with pytest.raises(BadConnection, match="await asink"):
            sink(session, 1)
        assert await asink_many(session, [1, 2]) == [1, 2]
        await session.commit()
        assert await asink_many(session, [2, 3]) == [3]
    await target.dispose()

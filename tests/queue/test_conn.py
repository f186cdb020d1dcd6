"""`publish(conn=)`: a message that is sent only if the caller's own transaction commits."""

import json
import sqlite3
from contextlib import closing

import psycopg
import pymysql
import pytest
from sqlalchemy import create_engine

from tests.connecting import WAYS, async_engine, opened, raw_connection
from tests.queue.sending import received
from tests.table import count
from windlass import BadConnection
from windlass.database.database import normalise
from windlass.database.schema import outbox


@pytest.fixture
def app(app):
    app.prepare()
    return app


@pytest.fixture
def engine(database_url):
    engine = create_engine(normalise(database_url))
    yield engine
    engine.dispose()


def bodies(queue, wanted):
    return [json.loads(each.body) for each in received(queue, wanted)]


@pytest.mark.parametrize("way", WAYS)
def test_messages_are_sent_if_the_caller_commits(app, queue, engine, database_url, way):
    with opened(way, engine, database_url) as conn:
        app.publish(queue, "a", key="k", conn=conn)
        assert app.publish_many(queue, ["b", "c"], key=lambda _: "k", conn=conn) == 2
        assert count(app, outbox) == 0
        conn.commit()

    app.drain()
    assert bodies(queue, 3) == ["a", "b", "c"]


@pytest.mark.parametrize("way", WAYS)
def test_messages_never_were_if_the_caller_rolls_back(app, queue, engine, database_url, way):
    with opened(way, engine, database_url) as conn:
        app.publish(queue, "a", conn=conn)
        app.publish_many(queue, ["b", "c"], conn=conn)
        conn.rollback()
        app.publish(queue, "d", conn=conn)
        conn.commit()

    app.drain()
    assert bodies(queue, 1) == ["d"]
    assert count(app, outbox) == 0


@pytest.mark.parametrize("way", ["AsyncConnection", "AsyncSession"])
async def test_async_connections_and_sessions_are_joined(app, queue, database_url, way):
    engine = async_engine(database_url)
    from sqlalchemy.ext.asyncio import AsyncSession

    async with engine.connect() if way == "AsyncConnection" else AsyncSession(engine) as conn:
        await app.apublish(queue, "lost", conn=conn)
        await app.apublish_many(queue, ["lost too"], conn=conn)
        await conn.rollback()
        await app.apublish(queue, "a", conn=conn)
        assert await app.apublish_many(queue, ["b", "c"], conn=conn) == 2
        assert count(app, outbox) == 0
        await conn.commit()
    await engine.dispose()

    await app.adrain()
    assert sorted(bodies(queue, 3)) == ["a", "b", "c"]


async def test_a_sync_connection_may_be_joined_from_a_coroutine(app, queue, database_url):
    with closing(raw_connection(database_url)) as conn:
        await app.apublish(queue, "a", key="k", conn=conn)
        await app.apublish_many(queue, ["b"], key=lambda _: "k", conn=conn)
        conn.commit()

    await app.adrain()
    assert bodies(queue, 2) == ["a", "b"]


def test_rows_of_a_raw_connection_may_come_as_mappings(app, queue, database_url):
    with closing(raw_connection(database_url)) as raw:
        if isinstance(raw, sqlite3.Connection):
            raw.row_factory = sqlite3.Row
        elif isinstance(raw, psycopg.Connection):
            raw.row_factory = psycopg.rows.dict_row
        else:
            raw.cursorclass = pymysql.cursors.DictCursor
        app.publish(queue, "a", conn=raw)
        raw.commit()

    app.drain()
    assert bodies(queue, 1) == ["a"]


@pytest.mark.parametrize("conn", ["sqlite:///shop.db", object()])
def test_what_is_not_a_connection_is_refused(app, queue, conn):
    for publish in (app.publish, app.publish_many):
        with pytest.raises(BadConnection, match="is not a connection"):
            publish(queue, ["x"], conn=conn)

    assert count(app, outbox) == 0

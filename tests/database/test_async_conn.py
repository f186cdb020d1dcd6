"""Whatever takes `conn=` takes async connections and sessions, by its async twin."""

import inspect
from contextlib import asynccontextmanager

import pytest

import windlass
from tests.connecting import async_engine
from tests.table import count
from windlass import amake_sink, asink, asink_many
from windlass.database.schema import outbox, task
from windlass.queue import Queue

QUEUE = Queue("redis://127.0.0.1/0", "visits")
WAYS = ["AsyncConnection", "AsyncSession", "async_scoped_session"]


@asynccontextmanager
async def opened(way, engine):
    from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker

    if way == "async_scoped_session":
        session = async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: 1)
        yield session
        await session.remove()
        return
    async with engine.connect() if way == "AsyncConnection" else AsyncSession(engine) as conn:
        yield conn


def declare(app):
    @app.task
    def note(text: str) -> None: ...

    @app.task(many=10)
    def notes(texts: list[str]) -> None: ...

    @app.flow
    def both(flow, text: str) -> None:
        flow.add(note, text)

    app.prepare()
    return {"note": note, "notes": notes, "both": both}


# The twins of each public call with `conn=`, and how many rows each writes.
CALLS = {
    "Task.using": (
        lambda app, kinds, conn: kinds["note"].using(conn=conn).aenqueue("a"),
        lambda app, kinds, conn: kinds["note"].using(conn=conn).aenqueue_many([{"text": "b"}]),
    ),
    "ListTask.using": (lambda app, kinds, conn: kinds["notes"].using(conn=conn).aenqueue("a"),),
    "Flow.using": (lambda app, kinds, conn: kinds["both"].using(conn=conn).astart("a"),),
    "App.publish": (lambda app, kinds, conn: app.apublish(QUEUE, "a", conn=conn),),
    "make_sink": (lambda app, kinds, conn: amake_sink(conn),),
    "App.publish_many": (lambda app, kinds, conn: app.apublish_many(QUEUE, ["a"], conn=conn),),
    "sink": (lambda app, kinds, conn: asink(conn, "a"),),
    "sink_many": (lambda app, kinds, conn: asink_many(conn, ["b", "c"]),),
}


def takes_conn(function):
    try:
        return "conn" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def public_calls():
    """The names of all public functions and methods that take `conn`."""
    for name in windlass.__all__:
        thing = getattr(windlass, name)
        if inspect.isclass(thing):
            members = inspect.getmembers(thing, callable)
            yield from (f"{name}.{each}" for each, call in members if takes_conn(call))
        elif takes_conn(thing):
            yield name


@pytest.mark.mostly("sqlite")
def test_every_call_with_conn_is_tried_here():
    found = {name for name in public_calls() if not name.endswith("__init__")}
    twins = {name for name in found if name.rpartition(".")[2].startswith("a")}

    assert found - twins == set(CALLS)
    assert twins == {"App.apublish", "App.apublish_many", "amake_sink", "asink", "asink_many"}


@pytest.mark.parametrize("way", WAYS)
async def test_async_connections_and_sessions_are_taken_everywhere(app, database_url, way):
    kinds, engine = declare(app), async_engine(database_url)

    async with opened(way, engine) as conn:
        # MySQL and MariaDB commit when a table is made.
        await CALLS["make_sink"][0](app, kinds, conn)
        await conn.commit()
        for name, calls in CALLS.items():
            for call in calls if name != "make_sink" else ():
                await call(app, kinds, conn)
        assert (count(app, task), count(app, outbox)) == (0, 0)
        await conn.commit()
    await engine.dispose()

    assert count(app, outbox) == 2
    assert count(app, task) >= 4


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_rolled_back_never_was(app, database_url, way):
    kinds, engine = declare(app), async_engine(database_url)

    async with opened(way, engine) as conn:
        for name in ("Task.using", "ListTask.using", "Flow.using", "App.publish"):
            for call in CALLS[name]:
                await call(app, kinds, conn)
        await conn.rollback()
    await engine.dispose()

    assert (count(app, task), count(app, outbox)) == (0, 0)

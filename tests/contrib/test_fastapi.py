"""What FastAPI and Starlette get beside the example that is served in tests/story."""

import asyncio
from typing import Annotated

import pytest
from fastapi import Depends, FastAPI
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import (
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from tests.wait import eventually
from windlass import App, BadInput
from windlass.contrib.fastapi import ConsoleUser, Joined, console, console_router, join, lifespan
from windlass.contrib.keep import KeptWorker


@pytest.fixture
def shop(sqlite_url):
    app = App(sqlite_url)

    @app.task(keep="1h")
    def greet(name: str) -> str:
        return f"hello {name}"

    app.greet = greet
    yield app
    app.close()


def test_a_sync_session_of_a_request_is_joined(shop, sqlite_url):
    engine = create_engine(sqlite_url)

    def session():
        with Session(engine) as opened:
            yield opened

    api = FastAPI()
    commits = []

    @api.post("/{name}")
    def take(
        name: str,
        opened: Annotated[Session, Depends(session)],
        tasks: Annotated[Joined, Depends(join(session))],
    ) -> int:
        ref = tasks(shop.greet, key=name).enqueue(name)
        if name == "ada":
            opened.commit()
            commits.append(ref.id)
        return ref.id

    with TestClient(api) as client:
        kept, dropped = client.post("/ada").json(), client.post("/bob").json()

    assert commits == [kept]
    assert shop.find(kept).key == "ada"
    assert shop.find(dropped) is None
    engine.dispose()


async def test_an_async_scoped_session_is_joined(shop, sqlite_url):
    engine = create_async_engine(sqlite_url.replace("sqlite:", "sqlite+aiosqlite:"))
    session = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)

    await shop.greet.using(conn=session, key="bob").aenqueue("bob")
    await session.rollback()
    await shop.greet.using(conn=session, key="ada").aenqueue("ada")
    await session.commit()
    await session.remove()

    query = "select task_key from windlass_task"
    found = shop.database.read(lambda connection: connection.exec_driver_sql(query).all())
    assert found == [("ada",)]
    await engine.dispose()


def test_a_worker_runs_while_the_application_does(shop):
    with TestClient(Starlette(lifespan=lifespan(shop, worker=True))):
        ref = shop.greet.enqueue("ada")
        eventually(lambda: ref.status().name == "SUCCEEDED", 20)
    left = "select count(*) from windlass_worker where left_at is null"
    alive = shop.database.read(lambda connection: connection.exec_driver_sql(left).scalar())
    assert alive == 0


async def test_a_worker_that_breaks_off_is_replaced(monkeypatch):
    monkeypatch.setattr("windlass.contrib.keep.FIRST_PAUSE", 0.0)
    made = []

    class Breaking:
        """The first one breaks off; the second one runs until it is stopped."""

        def __init__(self):
            self.stopped = asyncio.Event()
            made.append(self)

        async def run(self):
            if len(made) == 1:
                raise RuntimeError("broken")
            kept.stop()
            await self.stopped.wait()

        def stop(self):
            self.stopped.set()

    kept = KeptWorker(Breaking)
    await kept.run()

    assert len(made) == 2


def test_the_console_is_for_those_whom_the_application_knows(shop):
    def user(request):
        name = request.headers.get("x-name")
        return ConsoleUser(name, "viewer") if name else None

    site = Starlette(routes=[Mount("/deep/windlass", console(shop, user=user))])
    with TestClient(site, base_url="http://localhost") as client:
        assert client.get("/deep/windlass/api/tasks").status_code == 403
        known = {"x-name": "ada"}
        assert client.get("/deep/windlass/api/tasks", headers=known).json()["items"] == []
        session = client.get("/deep/windlass/api/session", headers=known).json()
        assert (session["name"], session["role"], session["read_only"]) == ("ada", "viewer", True)
        known["x-csrf-token"] = session["token"]
        refused = client.post("/deep/windlass/api/switches/greet/pause", json={}, headers=known)
        assert refused.status_code == 403


def test_a_user_that_is_not_one_is_refused(shop):
    api = FastAPI()
    api.include_router(console_router(shop, user=lambda: "ada"), prefix="/windlass")

    with TestClient(api) as client, pytest.raises(BadInput, match="returned a str"):
        client.get("/windlass/api/tasks")
    with pytest.raises(BadInput, match="is not a role"):
        ConsoleUser("ada", "king")
    with pytest.raises(BadInput, match="is not the name"):
        ConsoleUser("", "viewer")

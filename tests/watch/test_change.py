"""Events: whoever listens hears what changed, and asks again."""

import asyncio
import json
from contextlib import contextmanager

import httpx

from tests.fixture.console import SECRET
from tests.wait import eventually
from windlass import web
from windlass.watch.operate.change import ChangeWatcher
from windlass.web.serve import beside, bind, url_of

BEARER = {"Authorization": f"Bearer {SECRET}"}
TOPICS = {
    *("tasks", "failures", "alerts", "switches", "workers", "sweeps", "flows", "control", "audit"),
    "ledger",
}


def test_a_mark_changes_with_what_is_behind_it(console, web_shop):
    def changed(act) -> set[str]:
        before = console.get("changes")["topics"]
        act()
        after = console.get("changes")["topics"]
        assert set(after) == TOPICS
        return {topic for topic in TOPICS if before[topic] != after[topic]}

    assert changed(lambda: None) == set()
    assert changed(lambda: web_shop.send_mail.enqueue("nobody")) == {"tasks"}
    assert changed(lambda: web_shop.app.pause("send_mail")) == {"switches"}
    assert changed(lambda: web_shop.app.resume("send_mail")) == {"switches"}
    assert changed(web_shop.offer.start) == {"sweeps"}
    assert changed(lambda: web_shop.app.control.start("load")) == {"control"}
    assert changed(lambda: web_shop.app.control.step("load", 1)) == {"control"}
    assert {"tasks", "failures", "workers", "sweeps"} <= changed(web_shop.app.drain)
    assert changed(lambda: console.do("switches/stock/pause")) == {"switches", "audit"}


@contextmanager
def served(app):
    """The console on a real server; its address."""
    bound = bind("127.0.0.1", 0)
    with (
        beside(web.create(app, secret=SECRET), bound),
        httpx.Client(base_url=url_of(bound), headers=BEARER, trust_env=False, timeout=20) as client,
    ):
        eventually(lambda: is_up(client), 20, what="the server")
        yield client


def is_up(client: httpx.Client) -> bool:
    try:
        return client.get("/api/health").status_code == 200
    except httpx.TransportError:
        return False


def test_whoever_listens_hears_what_changed(sqlite_web_shop):
    with served(sqlite_web_shop.app) as client, client.stream("GET", "/api/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["cache-control"] == "no-store"
        lines = stream.iter_lines()
        assert next(lines) == "retry: 2000"
        sqlite_web_shop.send_mail.enqueue("a@b.c")

        assert "event: change" in lines
        heard = json.loads(next(lines).removeprefix("data: "))

    assert heard == ["tasks"]


async def test_what_changes_while_one_begins_to_listen_is_told(sqlite_web_shop):
    sqlite_web_shop.app.prepare()
    watch = ChangeWatcher(sqlite_web_shop.app.fleet, seconds=0.01)

    since = await watch.begin()
    sqlite_web_shop.send_mail.enqueue("a@b.c")
    async with watch.listening(since) as heard:
        assert await asyncio.wait_for(heard.get(), 20) == {"tasks"}

        since = await watch.begin()
        sqlite_web_shop.app.pause("send_mail")
        await asyncio.wait_for(heard.get(), 20)
        async with watch.listening(since) as later:
            assert later.get_nowait() == {"switches"}


async def test_one_who_is_slow_hears_everything_at_once(sqlite_web_shop):
    watch = ChangeWatcher(sqlite_web_shop.app.fleet, seconds=0.01)

    async with watch.listening(await watch.begin()) as heard:
        watch._tell({"tasks"}, [heard])
        watch._tell({"alerts"}, [heard])

        assert await heard.get() == {"tasks", "alerts"}
        assert heard.empty()


async def test_nobody_looks_at_the_database_when_nobody_listens(sqlite_web_shop):
    sqlite_web_shop.app.prepare()
    watch = ChangeWatcher(sqlite_web_shop.app.fleet, seconds=0.01)
    async with watch.listening({}):
        looking = watch._reading
        assert not looking.done()

    await asyncio.wait_for(looking, 10)

    assert looking.done()


async def test_only_a_limited_number_may_listen(sqlite_web_shop, monkeypatch):
    monkeypatch.setattr("windlass.watch.operate.change.MOST_LISTENERS", 1)
    watch = ChangeWatcher(sqlite_web_shop.app.fleet, seconds=0.01)

    async with watch.listening({}):
        assert watch.is_full

    assert not watch.is_full


def test_listeners_do_not_keep_a_server_from_stopping(sqlite_web_shop):
    bound = bind("127.0.0.1", 0)
    address = url_of(bound)
    with httpx.Client(base_url=address, headers=BEARER, trust_env=False, timeout=20) as client:
        with beside(web.create(sqlite_web_shop.app, secret=SECRET), bound) as thread:
            eventually(lambda: is_up(client), 20, what="the server")
            listening = client.send(client.build_request("GET", "/api/events"), stream=True)
            assert listening.status_code == 200

        eventually(lambda: not thread.is_alive(), 20, what="the end of the server")

"""The app that calls a server with a capacity: one kind by httpx, one by urllib."""

import urllib.request
from functools import cache

import httpx

from tests.fault.worker.called import Calling
from windlass import App

MODULE = """
from tests.fault.worker.asking import make_app

app = make_app({url!r}, {address!r}).app
"""

CEILING = 60.0
FLOOR = CEILING / 100
CONCURRENCY = 12


@cache
def client() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=30.0)


def make_app(url: str, address: str) -> Calling:
    """An app with two kinds that call the server, over a downstream that adapts."""
    app = App(url, lease="5s", dead_after="2s", grace="10s")
    app.downstream("server", rate="60/s", concurrency=CONCURRENCY, adapt=True)

    @app.task(downstream="server")
    async def ask() -> None:
        answer = await client().post(f"{address}/call")
        answer.raise_for_status()

    @app.task(downstream="server")
    def fetch() -> None:
        request = urllib.request.Request(f"{address}/call", method="POST")
        with urllib.request.urlopen(request, timeout=30.0) as answer:
            answer.read()

    return Calling(app, [ask, fetch])

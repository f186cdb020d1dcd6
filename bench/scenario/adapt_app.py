"""Downstreams that adapt, each with an async and a sync kind that call its HTTP server."""

from __future__ import annotations

import os
import urllib.request

import httpx

from bench.contract import url
from windlass import App, Task

SERVERS = "BENCH_ADAPT"

app = App(url())


def declare(name: str, address: str, **ceilings: object) -> list[Task]:
    """Two kinds that call the server, over a downstream of this name."""
    downstream = app.downstream(name, adapt=True, **ceilings)
    client: list[httpx.AsyncClient] = []

    @app.task(name=f"{name}_async", downstream=downstream)
    async def ask() -> None:
        if not client:
            client.append(httpx.AsyncClient(timeout=30.0))
        answer = await client[0].post(f"{address}/call")
        answer.raise_for_status()

    @app.task(name=f"{name}_sync", downstream=downstream)
    def fetch() -> None:
        request = urllib.request.Request(f"{address}/call", method="POST")
        with urllib.request.urlopen(request, timeout=30.0) as answer:
            answer.read()

    return [ask, fetch]


CEILINGS: dict[str, dict[str, object]] = {
    "rate": {"rate": "200/s"},
    "concurrency": {"concurrency": 40},
    "both": {"rate": "200/s", "concurrency": 40},
    "queue": {"concurrency": 40},
}
ADDRESSES = dict(each.split("=") for each in os.environ.get(SERVERS, "").split(",") if each)
KINDS = {name: declare(name, address, **CEILINGS[name]) for name, address in ADDRESSES.items()}

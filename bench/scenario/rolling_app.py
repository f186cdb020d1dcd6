"""The rolling kinds of the scenarios, as a Windlass worker loads them."""

from __future__ import annotations

import os
import time
from functools import cache

from bench.contract import url
from windlass import App, Table, context

app = App(url())
PRODUCT = Table(url(), "product", key="code")
NOTES = "BENCH_NOTES"


@app.rolling(every="10d")
async def visited(code: str) -> None: ...


@app.rolling(every="10d")
async def mirrored(code: str) -> None: ...


@app.rolling(every="10d", rate="700/s")
async def rated(code: str) -> None:
    note()


@app.rolling(every="10d", rate="50/s")
async def slow(code: str) -> None:
    note()


def note() -> None:
    """Note that a visit has started: one write, so that it costs next to nothing."""
    os.write(_notes(), b"%d %d\n" % (time.time_ns(), context().task_id))


@cache
def _notes() -> int:
    path = f"{os.environ[NOTES]}/{os.getpid()}"
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

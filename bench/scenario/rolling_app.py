"""The rolling kinds of the scenarios, as a Windlass worker loads them."""

from __future__ import annotations

import os
import time

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
    moment = time.time_ns()
    with open(f"{os.environ[NOTES]}/{os.getpid()}", "a") as notes:
        notes.write(f"{moment} {context().task_id}\n")

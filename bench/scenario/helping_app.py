"""Tasks that wait, on a machine that may be slow, for the helping scenario."""

from __future__ import annotations

import asyncio
import os

from bench.contract import url
from bench.tally import Tally
from windlass import App

SLOWER = "BENCH_SLOWER"
"""How many times longer a task takes in this process."""

app = App(url())
ran = Tally()
times = float(os.environ.get(SLOWER, "1"))


@app.task
async def slow(seconds: float) -> None:
    ran.begin()
    await asyncio.sleep(seconds * times)
    ran()


@app.task
async def fast(n: int) -> None:
    ran()

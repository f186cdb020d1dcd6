"""The no-op task of the lane scenario, with a lane and without, as a worker loads it."""

from __future__ import annotations

from bench.contract import url
from bench.tally import Tally
from windlass import App

app = App(url())
ran = Tally()


@app.task
async def noop(n: int) -> None:
    ran()


@app.task(lane=lambda lane: lane)
async def laned(n: int, lane: str) -> None:
    ran()

"""The no-op task as a Windlass worker loads it."""

from __future__ import annotations

from bench.contract import url
from bench.tally import Tally
from windlass import App

app = App(url())
ran = Tally()


@app.task
async def noop(n: int) -> None:
    ran()

"""The no-op task as a Procrastinate worker loads it."""

from __future__ import annotations

from procrastinate import App, PsycopgConnector

from bench.contract import url
from bench.tally import Tally

app = App(connector=PsycopgConnector(conninfo=url()))
ran = Tally()


@app.task(name="noop")
async def noop(number: int) -> None:
    ran()

"""A task that notes when it started, for the latency and the takeover scenario."""

from __future__ import annotations

import os

from bench.contract import url
from bench.scenario import note
from windlass import App

MEMBERS = "BENCH_MEMBERS"
"""The etcd or ZooKeeper that tells who is alive; else the database does."""

app = App(url(), members=os.environ.get(MEMBERS))


@app.task
async def stamp(number: int) -> None:
    note.leave(number)

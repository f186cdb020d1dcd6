"""The sweeps of the scenario, as a Windlass worker loads them: one at a time, by its name."""

from __future__ import annotations

import asyncio
import os

from bench.contract import url
from bench.tally import Tally
from windlass import App, Table

WHICH = "BENCH_SWEEP"
RATE = 700
LATENCY = 0.05

app = App(url())
ARTICLE = Table(url(), "article", key="id", columns=["id", "offer_url"])
tally = Tally()
which = os.environ.get(WHICH, "one")

if which == "one":

    @app.sweep(ARTICLE, ranges=30)
    async def one(article: dict[str, object]) -> None:
        tally()

elif which == "many":

    @app.sweep(ARTICLE, ranges=30, many=True)
    async def many(articles: list[dict[str, object]]) -> None:
        tally.add(len(articles))

else:

    @app.sweep(ARTICLE, ranges=30, rate=f"{RATE}/s", concurrency=50)
    async def rated(article: dict[str, object]) -> None:
        tally()
        await asyncio.sleep(LATENCY)

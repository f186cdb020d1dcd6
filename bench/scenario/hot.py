"""Deductions of one product by a hot lane, beside the bare script of its cache and the book alone.

The callers are coroutines of one process, so many that groups are full. `bare` is the script that
decides, called by itself with groups of the same size: no record, no answer for each caller.
`book` is the ledger without a lane, by as many callers. `p99_ms` is measured at half of the rate
that was reached, with callers that come one after the other. The cache is a private Redis.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import count

from tests.server import Redis
from windlass.ledger import HotLane, Ledger
from windlass.ledger.model.hot import Question, new_name

CALLERS = 1_000
GROUP = 500
SECONDS = 5.0
PLENTY = 10**9
GOAL_RATE = 40_000
GOAL_RATIO = 0.7
GOAL_P99_MS = 10.0
NUMBERS = count(1)

Deducts = Callable[[str, dict[str, int]], Awaitable[object]]


def main() -> None:
    seconds = 1.0 if "--quick" in sys.argv else SECONDS
    with Redis() as server, Ledger(os.environ["BENCH_URL"]) as ledger:
        ledger.migrate()
        ledger.restock("delivery", {"bolt": PLENTY, "nut": PLENTY})
        with ledger.hot(server.url) as hot:
            hot.allot({"bolt": PLENTY})
            asyncio.run(together(hot.adeduct, "bolt", 0.5))
            rate = asyncio.run(together(hot.adeduct, "bolt", seconds))
            bare = bare_rate(hot, seconds)
            book = asyncio.run(together(ledger.adeduct, "nut", seconds))
            late = asyncio.run(at_rate(hot.adeduct, rate / 2, seconds))
    figures = {
        "rate": round(rate),
        "bare": round(bare),
        "ratio": round(rate / bare, 2),
        "book": round(book),
        "p99_ms": round(late * 1e3, 1),
        "met": (rate >= GOAL_RATE or rate / bare >= GOAL_RATIO) and late * 1e3 < GOAL_P99_MS,
    }
    print(json.dumps(figures))


async def together(deduct: Deducts, sku: str, seconds: float) -> float:
    """Deductions per second of callers who call again as soon as they are answered."""
    began = time.perf_counter()

    async def go_on() -> int:
        made = 0
        while time.perf_counter() - began < seconds:
            await deduct(f"order-{next(NUMBERS)}", {sku: 1})
            made += 1
        return made

    made = sum(await asyncio.gather(*(go_on() for _ in range(CALLERS))))
    return made / (time.perf_counter() - began)


async def at_rate(deduct: Deducts, rate: float, seconds: float) -> float:
    """The 99th percentile of how long a call takes, of calls that begin at this rate."""
    took: list[float] = []

    async def call() -> None:
        began = time.perf_counter()
        await deduct(f"order-{next(NUMBERS)}", {"bolt": 1})
        took.append(time.perf_counter() - began)

    began, begun = time.perf_counter(), 0
    async with asyncio.TaskGroup() as calls:
        while (passed := time.perf_counter() - began) < seconds:
            for _ in range(int(passed * rate) - begun):
                calls.create_task(call())
            begun = max(begun, int(passed * rate))
            await asyncio.sleep(0.001)
    took.sort()
    return took[int(len(took) * 0.99)]


def bare_rate(hot: HotLane, seconds: float) -> float:
    """Decisions per second of the script alone."""
    token = hot.decider.epoch().token
    made, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        group = [
            Question(f"bare-{next(NUMBERS)}", '{"lines":{"bolt":1}}', {"bolt": 1})
            for _ in range(GROUP)
        ]
        hot.cache.decide(token, new_name(), group, remember_seconds=60)
        made += GROUP
    return made / (time.perf_counter() - began)


if __name__ == "__main__":
    main()

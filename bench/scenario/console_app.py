"""The app that the console of the scenario is about: a few rows of every sort, to be multiplied."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from bench.contract import url
from windlass import App, Keys
from windlass.ledger import Ledger

app = App(url())


@app.task
async def later(number: int) -> None: ...


@app.task(keep="30d")
async def kept(number: int) -> str:
    return f"result {number}"


@app.task(retries=0)
async def failing(number: int) -> None:
    raise ValueError(f"no such number: {number}")


@app.rolling(every="10d")
async def item(code: str) -> str:
    return f"seen {code}"


@app.sweep(Keys(1, 1_000), ranges=30, redo="1h", retries=0)
async def walk(number: int) -> None:
    if number % 100 == 0:
        raise ValueError(f"{number} always fails")


@app.flow
def fine(flow: Any, number: int) -> None:
    first = flow.add(kept, number, name="first")
    second = flow.add(kept, number, after=first, name="second")
    flow.add(kept, number, after=second, name="third")


@app.flow
def broken(flow: Any, number: int) -> None:
    first = flow.add(failing, number, name="first")
    flow.add(kept, number, after=first, name="second")


def seed() -> None:
    """Rows as they are after work, and some that wait."""
    app.migrate()
    item.add(f"SKU-{number}" for number in range(5))
    for number in range(2):
        kept.using(key=f"kept-{number}").enqueue(number)
    failing.using(key="failing").enqueue(1)
    fine.start(1)
    broken.start(1)
    app.drain()
    for number in range(4):
        later.using(delay="1d").enqueue(number)
        later.using(key=f"due-{number}").enqueue(number)
    cancelled = later.using(key="cancelled").enqueue(0)
    cancelled.cancel("not wanted")
    node = {"name": "only", "kind": "kept", "kwargs": {"number": 1}}
    app.flow_template("drawn", {"nodes": [node], "edges": []})
    with app.control("load", partition="0") as run:
        run.step("read", lambda: {"rows": 7})
    with suppress(OSError), app.control("load", partition="failed") as run:
        run.step("read", _fail)
    _seed_ledger()


def _seed_ledger() -> None:
    ledger = Ledger(url())
    ledger.restock("delivery", {"sku": 1_000})
    ledger.deduct("order", {"sku": 5})
    ledger.give_back("order", "return", {"sku": 2})
    ledger.close()


def _fail() -> None:
    raise OSError("no space left")

"""`examples/cancel_order`: killed in the middle of its steps, resumed, and everything done once."""

import os
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.spawn import Forked
from windlass import App, Status
from windlass.ledger import DeductionStatus, Ledger

ROOT = Path(__file__).resolve().parents[2]
SYSTEMS = (
    "stop parcel",
    "revoke points",
    "restore coupon",
    "refund",
    "credit invoice",
    "mail",
)
# What must be undone before what.
BEFORE = (
    ("stop parcel", "refund"),
    ("revoke points", "refund"),
    ("refund", "credit invoice"),
    ("credit invoice", "mail"),
    ("restore coupon", "mail"),
)
REPORT = {
    "parcel": "stopped in the store",
    "stock": "4 bolt, 2 nut",
    "coupon": "SPRING can be used again",
    "points": "39 revoked, 20 were spent",
    "payment": "58.00 paid back",
    "invoice": "credit note C-order-7",
    "mail": "order order-7 is cancelled: you get 58.00 back",
}
STEPS = ("stock", *SYSTEMS)
# A worker of the example, until the order is cancelled. It dies the first time that a step is done
# and nobody has heard of it.
WORKER = """
import asyncio, os, pathlib, signal, sys
from examples.cancel_order import shop

def die_after(call, name):
    def called(*given, **facts):
        result = call(*given, **facts)
        if sys.argv[1] == name or sys.argv[1] == given[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return called

async def work():
    worker = shop.app.worker(concurrency=1)
    working = asyncio.create_task(worker.run())
    await shop.app.flows.ref(shop.cancel("order-7"))
    worker.stop()
    await working

shop.ledger.void = die_after(shop.ledger.void, "stock")
shop.call = die_after(shop.call, "call")
asyncio.run(work())
"""


@pytest.fixture
def python(database_url, tmp_path):
    """Runs Python beside the example; how it ended."""

    def run(*arguments: str) -> int:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
            "WINDLASS_DATABASE_URL": database_url,
            "CANCEL_ORDER_OUTSIDE": f"sqlite:///{tmp_path / 'outside.db'}",
        }
        command = [sys.executable, *arguments]
        return Forked(command, cwd=tmp_path, env=environment).wait(60)

    return run


def sell_and_cancel(python, fatal: str) -> None:
    """Sell, cancel as somebody does who clicks twice, and have a worker die in a step."""
    for verb in ("sell", "cancel", "cancel"):
        assert python("-m", "examples.cancel_order", verb, "order-7") == 0
    assert python("-c", WORKER, fatal) == -signal.SIGKILL
    assert python("-c", WORKER, "") == 0


def check(url: str, folder: Path, fatal: str) -> None:
    with closing(Ledger(url)) as ledger:
        assert [(row.sku, row.available) for row in ledger.stocks()] == [("bolt", 10), ("nut", 10)]
        assert ledger.deduction("order-7").status is DeductionStatus.VOIDED
        assert ledger.audit().ok
    with closing(sqlite3.connect(folder / "outside.db")) as outside:
        rows = outside.execute("select system, calls, place from call").fetchall()
    calls = {system: count for system, count, _ in rows}
    place = {system: place for system, _, place in rows}
    # A step whose end nobody has heard of is repeated, and the other side knows the call.
    for system in SYSTEMS:
        assert calls[system] >= 1 + (system == fatal)
    assert [pair for pair in BEFORE if place[pair[0]] > place[pair[1]]] == []
    with closing(App(url)) as app:
        (run,) = app.flows.runs()
        assert run.status is Status.SUCCEEDED
        nodes = {node.name: node for node in app.flows.ref(run.id).nodes()}
    assert nodes["give_back_stock"].result == {"bolt": 4, "nut": 2}
    assert nodes["report"].result == REPORT


@pytest.mark.parametrize(
    "fatal",
    ["refund", *(pytest.param(step, marks=pytest.mark.slow) for step in STEPS if step != "refund")],
)
@pytest.mark.mostly("sqlite")
def test_an_order_whose_cancelling_dies_half_way_is_undone_once(
    python, database_url, tmp_path, fatal
):
    sell_and_cancel(python, fatal)

    check(database_url, tmp_path, fatal)

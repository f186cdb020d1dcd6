"""`examples/cancel_order`: killed in the middle of its steps, resumed, and everything done once."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from windlass import App, Status
from windlass.ledger import DeductionStatus, Ledger

ROOT = Path(__file__).resolve().parents[2]
SYSTEMS = ("refund", "revoke points", "restore coupon", "stop parcel", "mail")
STOCK = "stock"
# A worker of the example that dies when a step is done and nobody has heard of it.
WORKER = """
import asyncio, os, signal, sys
from examples.cancel_order import shop

def die_after(call, *fatal):
    def called(*given):
        result = call(*given)
        if fatal == given[:len(fatal)]:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return called

if sys.argv[1] == "stock":
    shop.ledger.void = die_after(shop.ledger.void)
elif sys.argv[1]:
    shop.call = die_after(shop.call, sys.argv[1])
asyncio.run(shop.app.worker(concurrency=1, until_idle=True).run())
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
        return subprocess.run(command, cwd=tmp_path, env=environment, check=False).returncode

    return run


def sell_and_cancel(python, *fatal: str) -> None:
    """Sell, cancel as somebody does who clicks twice, and kill a worker in each of some steps."""
    for verb in ("sell", "cancel", "cancel"):
        assert python("-m", "examples.cancel_order", verb, "order-7") == 0
    for step in fatal:
        assert python("-c", WORKER, step) == -signal.SIGKILL
    assert python("-c", WORKER, "") == 0


def check(url: str, folder: Path, *fatal: str) -> None:
    with closing(Ledger(url)) as ledger:
        assert [(row.sku, row.available) for row in ledger.stocks()] == [("bolt", 10), ("nut", 10)]
        assert ledger.deduction("order-7").status is DeductionStatus.VOIDED
        assert ledger.audit().ok
    with closing(sqlite3.connect(folder / "outside.db")) as outside:
        calls = dict(outside.execute("select system, calls from call").fetchall())
    # A step that was killed is repeated, and the other side knows it; what was done is skipped.
    for system in SYSTEMS:
        assert calls[system] == 1 + (system in fatal)
    with closing(App(url)) as app:
        (run,) = app.flows.runs()
        assert run.status is Status.SUCCEEDED
        nodes = {node.name: node for node in app.flows.ref(run.id).nodes()}
    assert nodes["give_back_stock"].result == {"bolt": 4, "nut": 2}
    assert nodes["tell_customer"].result == "order order-7 is cancelled: 6 pieces came back"


@pytest.mark.mostly("sqlite")
def test_an_order_whose_cancelling_dies_half_way_is_undone_once(python, database_url, tmp_path):
    sell_and_cancel(python, "refund")

    check(database_url, tmp_path, "refund")


@pytest.mark.slow
def test_an_order_whose_cancelling_dies_in_every_step_is_undone_once(
    python, database_url, tmp_path
):
    fatal = (STOCK, *SYSTEMS)

    sell_and_cancel(python, *fatal)

    check(database_url, tmp_path, *fatal)

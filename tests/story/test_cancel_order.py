"""`examples/cancel_order`: killed in the middle of its steps, resumed, and everything done once."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.wait import eventually
from windlass import App
from windlass.ledger import DeductionStatus, Ledger

ROOT = Path(__file__).resolve().parents[2]
STEPS = [
    "give_back_stock",
    "refund",
    "revoke_points",
    "restore_coupon",
    "stop_parcel",
    "tell_customer",
]


@pytest.fixture
def shop(database_url, tmp_path):
    """Runs the example, and dies in a step if it is told so."""

    def run(verb: str, die_in: str = "") -> int:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
            "WINDLASS_DATABASE_URL": database_url,
            "CANCEL_ORDER_OUTSIDE": f"sqlite:///{tmp_path / 'outside.db'}",
            "CANCEL_ORDER_EXPIRES": "1s",
            "CANCEL_ORDER_DIE_IN": die_in,
        }
        command = [sys.executable, "-m", "examples.cancel_order", verb, "order-7"]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL, check=False
        )
        return done.returncode

    return run


def cancel_and_die_in(shop, *steps: str) -> None:
    """Each try is killed in one of the steps, once the one before has expired."""
    for step in steps:
        eventually(lambda step=step: shop("cancel", die_in=step) == -signal.SIGKILL, 60.0)
    eventually(lambda: shop("cancel") == 0, 60.0)


def check(url: str, folder: Path, *died_in: str) -> None:
    with closing(Ledger(url)) as ledger:
        assert [(row.sku, row.available) for row in ledger.stocks()] == [("bolt", 10), ("nut", 10)]
        assert ledger.deduction("order-7").status is DeductionStatus.VOIDED
        assert ledger.audit().ok
    with closing(sqlite3.connect(folder / "outside.db")) as outside:
        calls = dict(outside.execute("select system, calls from call").fetchall())
    # A step that was killed is repeated, and the other side knows it; what was done is skipped.
    undone = {"refund", "revoke_points", "restore_coupon", "stop_parcel"}
    for step in undone:
        assert calls[step.replace("_", " ")] == 1 + (step in died_in)
    assert calls["mail"] == 1 + ("tell_customer" in died_in)
    with closing(App(url)) as app:
        run = app.control.get("cancel-order", "order-7")
        assert [step.step for step in run.steps] == STEPS
        assert run.steps[0].result == {"bolt": 4, "nut": 2}


@pytest.mark.mostly("sqlite")
def test_an_order_that_is_cancelled_in_two_tries_is_undone_once(shop, database_url, tmp_path):
    shop("sell")

    cancel_and_die_in(shop, "refund")

    check(database_url, tmp_path, "refund")


@pytest.mark.slow
def test_an_order_whose_cancelling_dies_in_every_step_is_undone_once(shop, database_url, tmp_path):
    shop("sell")

    cancel_and_die_in(shop, *STEPS)

    check(database_url, tmp_path, *STEPS)

"""A row that somebody else holds keeps nobody waiting who does not need it."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import create_engine, text

from tests.spawn import Forked
from tests.wait import eventually
from windlass.errors import Blocked, DatabaseUnavailable
from windlass.ledger import Ledger
from windlass.ledger.engine import group
from windlass.ledger.engine.group import GroupCommit
from windlass.ledger.model.ledger import Deduct

HOLD = text("select sku from windlass_stock where sku = :sku for update")


@pytest.fixture(autouse=True)
def _server(database_engine):
    if database_engine == "sqlite":
        pytest.skip("SQLite lets one in at a time")


@contextmanager
def held(ledger: Ledger, sku: str):
    """The row of a SKU, held by somebody else."""
    somebody = create_engine(ledger.database.url)
    with somebody.connect() as connection, connection.begin():
        connection.execute(HOLD, {"sku": sku})
        yield
    somebody.dispose()


@pytest.mark.mostly("postgresql")
def test_who_wants_another_product_does_not_wait(ledger):
    ledger.restock("delivery-1", {"bolt": 10, "nut": 10})
    threads = ThreadPoolExecutor(8)

    with held(ledger, "bolt"):
        bolts = [threads.submit(ledger.deduct, f"bolt-{n}", {"bolt": 1}) for n in range(3)]
        nuts = [threads.submit(ledger.deduct, f"nut-{n}", {"nut": 1}) for n in range(4)]
        for nut in nuts:
            nut.result(timeout=20)
        assert not any(bolt.done() for bolt in bolts)
    for bolt in bolts:
        bolt.result(timeout=20)

    assert (ledger.stock("bolt").available, ledger.stock("nut").available) == (7, 6)
    assert ledger.audit().ok


async def test_a_coroutine_that_holds_a_row_gets_its_other_answer(ledger):
    # No database could see this deadlock: half of it is in this process.
    ledger.restock("delivery-1", {"bolt": 10, "nut": 10})
    has_bolt, wants_bolt = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        with ledger.database.engine.connect() as connection, connection.begin():
            ledger.deduct("order-1", {"bolt": 1}, conn=connection)
            has_bolt.set()
            await wants_bolt.wait()
            await asyncio.sleep(0.05)
            await ledger.adeduct("order-2", {"nut": 1})

    async def second() -> None:
        await has_bolt.wait()
        wants_bolt.set()
        await ledger.adeduct("order-3", {"bolt": 1})

    await asyncio.wait_for(asyncio.gather(first(), second()), 30)

    assert (ledger.stock("bolt").available, ledger.stock("nut").available) == (8, 9)


@pytest.mark.mostly("mariadb")
def test_what_is_blocked_for_too_long_fails_and_can_be_tried_again(ledger, monkeypatch):
    monkeypatch.setattr(group, "LONGEST_BLOCKED_SECONDS", 0.0)
    ledger.restock("delivery-1", {"bolt": 10})

    with held(ledger, "bolt"), pytest.raises(Blocked, match="nothing was changed"):
        ledger.deduct("order-1", {"bolt": 1})

    assert ledger.deduct("order-1", {"bolt": 1}).replayed is False
    assert ledger.stock("bolt").available == 9


STOPPED = """
import os, signal, sys
from windlass.ledger import Ledger
from windlass.ledger.store.ledger import LedgerRows

save = LedgerRows.save
def stop(self, executor, book):
    print("stopped", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    save(self, executor, book)
LedgerRows.save = stop
Ledger(sys.argv[1]).void("order-1")
"""


def test_a_stopped_process_does_not_hold_its_rows_forever(ledger, database_url):
    ledger.restock("delivery-1", {"bolt": 10})
    ledger.deduct("order-1", {"bolt": 1})
    stopped = Forked([sys.executable, "-c", STOPPED, database_url], stdout=subprocess.PIPE)
    try:
        assert stopped.stdout is not None
        assert stopped.stdout.readline() == b"stopped\n"

        assert ledger.void("order-1").lines[0].quantity == 1
    finally:
        os.kill(stopped.pid, signal.SIGKILL)
        stopped.wait()


def test_a_caller_that_is_interrupted_leaves_the_others_in_good_hands():
    began, go_on = threading.Event(), threading.Event()

    def carry_out(requests):
        if not began.is_set():
            began.set()
            go_on.wait(10)
            raise KeyboardInterrupt
        return [request.id for request in requests]

    batch = GroupCommit(carry_out)

    def lead() -> None:
        with pytest.raises(KeyboardInterrupt):
            batch.submit(Deduct.of("first", {"bolt": 1}, None))

    leader = threading.Thread(target=lead)
    leader.start()
    assert began.wait(10)
    with ThreadPoolExecutor(3) as threads:
        others = [
            threads.submit(batch.submit, Deduct.of(name, {"bolt": 1}, None))
            for name in ("second", "third")
        ]
        eventually(lambda: len(batch._waiting) == 2)
        go_on.set()
        assert {other.result(timeout=10) for other in others} == {"second", "third"}
    leader.join()
    assert batch.submit(Deduct.of("fourth", {"bolt": 1}, None)) == "fourth"


LATE = """
import sys, threading, time
from windlass.ledger import Ledger

ledger = Ledger(sys.argv[1])

def sell(name):
    for number in range(60):
        ledger.deduct(f"{name}-{number}", {"bolt": 1})

for name in "abcd":
    threading.Thread(target=sell, args=(name,)).start()
"""


def test_threads_that_outlive_the_main_one_are_answered(ledger, database_url):
    ledger.restock("delivery-1", {"bolt": 1_000})

    done = subprocess.run([sys.executable, "-c", LATE, database_url], check=False, timeout=60)

    assert done.returncode == 0
    assert ledger.stock("bolt").available == 760


def test_callers_of_one_failed_transaction_have_errors_of_their_own():
    entered, go_on = threading.Event(), threading.Event()

    def carry_out(requests):
        if not entered.is_set():
            entered.set()
            go_on.wait(10)
            return [request.id for request in requests]
        raise DatabaseUnavailable("it is away")

    batch = GroupCommit(carry_out)
    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(batch.submit, Deduct.of("first", {"bolt": 1}, None))
        assert entered.wait(10)
        others = [
            threads.submit(batch.submit, Deduct.of(name, {"bolt": 1}, None))
            for name in ("second", "third")
        ]
        eventually(lambda: len(batch._waiting) == 2)
        go_on.set()
        problems = [other.exception(timeout=10) for other in others]
    assert first.result() == "first"
    assert all(isinstance(problem, DatabaseUnavailable) for problem in problems)
    assert problems[0] is not problems[1]

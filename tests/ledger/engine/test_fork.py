"""A ledger that was used before a fork can be used in the child, and in the parent."""

import multiprocessing
import os
import threading

import pytest

from windlass.ledger import Ledger


def in_child(call) -> None:
    """What `call` does is done in a child by fork; it must end, and well."""
    process = multiprocessing.get_context("fork").Process(target=call)
    process.start()
    process.join(30)
    if process.is_alive():
        process.kill()
        process.join()
    assert process.exitcode == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_has_connections_and_numbers_of_its_own(ledger: Ledger):
    ledger.restock("delivery-1", {"bolt": 100})
    ledger.deduct("before", {"bolt": 1}, hold="15m")
    pool = ledger.database.engine.pool

    def use() -> None:
        assert ledger.database.engine.pool is not pool
        ledger.deduct(f"child-{os.getpid()}", {"bolt": 1}, hold="15m")
        ledger.close()

    for number in range(2):
        in_child(use)
        ledger.deduct(f"after-{number}", {"bolt": 1}, hold="15m")

    assert ledger.stock("bolt").available == 95
    assert ledger.audit().ok


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_does_not_wait_for_callers_of_its_parent(ledger: Ledger):
    ledger.restock("delivery-1", {"bolt": 100})
    entered, opened = threading.Event(), threading.Event()
    carry_out = ledger._group._execute

    def slowly(requests):
        if requests[0].id == "slow":
            entered.set()
            opened.wait(30)
        return carry_out(requests)

    ledger._group._execute = slowly
    slow = threading.Thread(target=ledger.deduct, args=("slow", {"bolt": 1}))
    slow.start()
    assert entered.wait(10)

    in_child(lambda: ledger.deduct("child", {"bolt": 1}))

    opened.set()
    slow.join(30)
    assert ledger.stock("bolt").available == 98
    assert ledger.audit().ok


def test_a_child_does_not_wait_for_a_lock_that_a_thread_of_its_parent_holds(ledger):
    ledger.restock("delivery-1", {"bolt": 10})

    with ledger.clock._lock, ledger._preparing:
        in_child(lambda: ledger.deduct("order-1", {"bolt": 1}))

    assert ledger.stock("bolt").available == 9

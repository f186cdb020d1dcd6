"""Processes that die between the cache and the disk, and many that sell the same product."""

import signal
import sys
from pathlib import Path

import pytest

from tests.spawn import run_forked
from windlass.ledger import OutOfStock

ROOT = Path(__file__).resolve().parents[3]
BOUNDARIES = range(1, 7)


def doomed(*arguments: object, check: bool = True):
    command = [sys.executable, "-m", "tests.ledger.hot.doomed", *map(str, arguments)]
    return run_forked(command, cwd=ROOT, timeout=100, check=check)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_caller_that_died_is_told_the_truth_when_it_asks_again(
    ledger, bolts, redis, database_url, boundary
):
    died = doomed("die", database_url, redis.url, boundary, "order-1", check=False)
    assert died.returncode == -signal.SIGKILL

    bolts.deduct("order-1", {"bolt": 5})
    bolts.deduct("order-2", {"bolt": 55})

    with pytest.raises(OutOfStock):
        bolts.deduct("order-3", {"bolt": 1})
    bolts.catch_up()
    assert ledger.stock("bolt").deducted == 60
    assert bolts.audit().ok


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_what_a_dead_caller_took_is_never_lost(ledger, bolts, redis, database_url, boundary):
    doomed("die", database_url, redis.url, boundary, "order-1", check=False)

    bolts.sweep()
    bolts.sweep()

    assert bolts.cache.pending(bolts.decider.epoch().token) == []
    sold = ledger.stock("bolt").unsynced
    assert sold == (0 if boundary == 1 else 5)
    assert bolts.deduct("order-2", {"bolt": 60 - sold})
    bolts.recall()
    bolts.catch_up()
    assert ledger.stock("bolt").available == 100 - 60
    assert bolts.audit().ok


def test_many_processes_never_oversell(ledger, redis, database_url):
    ledger.restock("delivery-1", {"bolt": 300})
    with ledger.hot(redis.url) as hot:
        hot.allot({"bolt": 200})

        sold = doomed("race", database_url, redis.url, 4).stdout

        assert int(sold) == 200
        hot.catch_up()
        assert hot.audit().ok
    assert ledger.stock("bolt").available == 100
    assert ledger.stock("bolt").deducted == 200

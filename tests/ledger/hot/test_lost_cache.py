"""A cache that is killed, comes back empty or with old data, or does not answer."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.server import PostgreSQL, Redis
from tests.wait import eventually
from windlass.core.alert import store
from windlass.errors import CacheUnavailable, NotDecided
from windlass.ledger import Ledger, OutOfStock

pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def server() -> Iterator[Redis]:
    """A Redis of the test's own, which it may kill."""
    with Redis() as server:
        yield server


@pytest.fixture
def bolts(ledger, server):
    """A lane with 60 of 100 bolts."""
    ledger.restock("delivery-1", {"bolt": 100})
    with ledger.hot(server.url, timeout=0.5) as hot:
        hot.allot({"bolt": 60})
        yield hot


def save(server: Redis) -> None:
    """Have the server write a snapshot, with which it will start."""
    import redis

    with redis.Redis.from_url(server.url) as client:
        client.save()


@contextmanager
def paused(server: Redis) -> Iterator[None]:
    """The server is there, and answers nothing."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def sell_the_rest(hot, ledger, *, sold: int) -> None:
    """Nobody gets more than there is, and all of it is sold."""
    assert hot.deduct("last", {"bolt": 60 - sold})
    with pytest.raises(OutOfStock):
        hot.deduct("more", {"bolt": 1})
    hot.catch_up()
    stock = ledger.stock("bolt")
    assert (stock.available, stock.deducted, stock.unsynced) == (40, 60, 0)
    assert hot.audit().ok


@pytest.mark.parametrize("keeps", ["nothing", "an old snapshot"])
def test_a_cache_that_was_restarted_is_not_trusted(bolts, ledger, server, keeps):
    first = bolts.deduct("order-1", {"bolt": 5})
    if keeps == "an old snapshot":
        save(server)
    bolts.deduct("order-2", {"bolt": 5})
    number = bolts.decider.epoch().number

    server.kill()
    server.start()
    again = bolts.deduct("order-1", {"bolt": 5})

    assert bolts.decider.epoch().number == number + 1
    assert (again, again.replayed) == (first, True)
    sell_the_rest(bolts, ledger, sold=10)


def test_an_old_snapshot_cannot_forget_what_was_only_decided(bolts, ledger, server):
    # Decided in the cache, and its process died.
    epoch = bolts.decider.epoch()
    save(server)
    questions = bolts.cache.questions_of(epoch.token, "none")
    assert questions == []
    server.kill()
    server.start()

    sell_the_rest(bolts, ledger, sold=0)


def test_without_a_cache_callers_are_told_that_nothing_is_decided(bolts, ledger, server):
    server.kill()

    with pytest.raises(NotDecided, match="ask again with the same id"):
        bolts.deduct("order-1", {"bolt": 5})
    with pytest.raises(CacheUnavailable):
        bolts.recover()

    server.start()
    assert not bolts.deduct("order-1", {"bolt": 5}).replayed
    sell_the_rest(bolts, ledger, sold=5)


def test_a_cache_that_is_away_is_an_alert_until_it_is_back(bolts, ledger, server):
    def open_alerts() -> set[str]:
        return set(ledger.database.read(store.open_causes))

    server.kill()
    with pytest.raises(CacheUnavailable):
        bolts.tick()
    assert open_alerts() == {"cache::hot"}

    server.start()
    bolts.tick()
    assert open_alerts() == set()


def test_a_recall_needs_no_cache(bolts, ledger, server):
    bolts.deduct("order-1", {"bolt": 5})
    server.kill()

    assert bolts.recall() == {"bolt": 55}
    ledger.deduct("order-2", {"bolt": 95})

    server.start()
    with pytest.raises(OutOfStock):
        bolts.deduct("order-3", {"bolt": 1})
    bolts.catch_up()
    assert ledger.stock("bolt").deducted == 100
    assert ledger.audit().ok


def test_what_a_paused_cache_decided_too_late_counts_once(bolts, ledger, server):
    with paused(server), pytest.raises(NotDecided):
        bolts.deduct("order-1", {"bolt": 5})

    # The script is executed when the server goes on.
    bolts.deduct("order-1", {"bolt": 5})
    bolts.sweep()

    sell_the_rest(bolts, ledger, sold=5)


def test_a_failover_to_a_replica_begins_a_new_epoch(bolts, ledger, server):
    import redis

    bolts.deduct("order-1", {"bolt": 5})
    number = bolts.decider.epoch().number
    # The same process becomes a replica, and the primary again, as after a failover and back.
    with redis.Redis.from_url(server.url) as client:
        client.replicaof("127.0.0.1", "1")
        with pytest.raises(NotDecided):
            bolts.deduct("order-2", {"bolt": 5})
        client.replicaof("no", "one")

    bolts.deduct("order-2", {"bolt": 5})

    assert bolts.decider.epoch().number > number
    sell_the_rest(bolts, ledger, sold=10)


def test_callers_go_on_while_the_cache_is_killed_again_and_again(bolts, ledger, server):
    accepted: list[str] = []
    stop = threading.Event()

    def sell(name: str) -> None:
        number = 0
        while not stop.is_set():
            order = f"{name}-{number}"
            try:
                bolts.deduct(order, {"bolt": 1})
            except NotDecided:
                continue
            except OutOfStock:
                return
            accepted.append(order)
            number += 1

    callers = [threading.Thread(target=sell, args=(f"caller-{n}",)) for n in range(4)]
    for caller in callers:
        caller.start()
    for _ in range(3):
        before = len(accepted)
        server.kill()
        server.start()
        eventually(lambda before=before: len(accepted) > before or len(accepted) == 60)
    eventually(lambda: len(accepted) >= 60 or not any(each.is_alive() for each in callers))
    stop.set()
    for caller in callers:
        caller.join()

    assert len(accepted) == len(set(accepted)) == 60
    bolts.catch_up()
    assert ledger.stock("bolt").deducted == 60
    assert all(ledger.deduction(order) for order in accepted)
    assert bolts.audit().ok


def test_without_the_database_nobody_is_answered_and_nothing_is_lost(server):
    with PostgreSQL() as postgresql, Ledger(postgresql.url, connect_timeout="1s") as ledger:
        ledger.migrate()
        ledger.restock("delivery-1", {"bolt": 100})
        with ledger.hot(server.url) as hot:
            hot.allot({"bolt": 60})
            hot.deduct("order-1", {"bolt": 5})
            postgresql.kill()

            with ledger.database.hasty(1), pytest.raises(NotDecided, match="database"):
                hot.deduct("order-2", {"bolt": 5})

            postgresql.start()
            hot.sweep()
            assert hot.deduct("order-2", {"bolt": 5}).replayed
            sell_the_rest(hot, ledger, sold=10)

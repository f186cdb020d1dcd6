"""A ledger on a clean database of each engine, and its hot lane on the Redis that tests share."""

from collections.abc import Iterator

import pytest

from windlass.ledger import HotLane, Ledger


@pytest.fixture
def ledger(database_url: str) -> Iterator[Ledger]:
    ledger = Ledger(database_url)
    yield ledger
    ledger.close()


@pytest.fixture
def hot(ledger, redis) -> Iterator[HotLane]:
    """A lane that may have every SKU."""
    with ledger.hot(redis.url) as hot:
        yield hot


@pytest.fixture
def bolts(ledger, hot) -> HotLane:
    """The lane with 60 of 100 bolts; the book has 50 nuts."""
    ledger.restock("delivery-1", {"bolt": 100, "nut": 50})
    hot.allot({"bolt": 60})
    return hot

"""The connection is cut at the worst moment: the commit was sent, and no answer comes."""

from collections.abc import Callable, Iterator

import pytest

from tests.server.relay import Relay
from windlass.database.database import Database
from windlass.errors import DatabaseUnavailable
from windlass.ledger import Ledger


@pytest.fixture
def relay(ledger: Ledger) -> Iterator[Relay]:
    port = ledger.database.url.port
    if port is None:
        pytest.skip("SQLite has no connection that could be cut")
    with Relay(port) as relay:
        yield relay


@pytest.fixture
def far(ledger: Ledger, relay: Relay, database_url: str) -> Iterator[Ledger]:
    """The same ledger by way of the relay."""
    far = Ledger(relay.url(database_url))
    ledger.restock("delivery-1", {"bolt": 100, "nut": 1})
    ledger.deduct("order", {"bolt": 50})
    # From then on it has a connection, and numbers for the tasks that end holds.
    far.deduct("warm", {"nut": 1}, hold="1d")
    yield far
    far.close()


@pytest.fixture
def commit(database_engine: str, verb: str) -> bytes:
    """How the driver says it; the word alone is in `read committed`, too."""
    if database_engine in ("mariadb", "mysql"):
        return b"\x03commit"
    # One statement that commits alone, known by what is in it (its text was sent before), or more.
    alone = {"deduct": b'"order-7"', "give_back": b'"return-1"'}
    return alone.get(verb, b"commit\x00")


CALLS: dict[str, tuple[Callable[[Ledger], object], int]] = {
    "deduct": (lambda ledger: ledger.deduct("order-7", {"bolt": 5}), 45),
    "give_back": (lambda ledger: ledger.give_back("order", "return-1", {"bolt": 5}), 55),
    "hold": (lambda ledger: ledger.deduct("order-7", {"bolt": 5}, hold="15m"), 45),
    "void": (lambda ledger: ledger.void("order"), 100),
    "restock": (lambda ledger: ledger.restock("delivery-2", {"bolt": 5}), 55),
    "adjust": (lambda ledger: ledger.adjust("count-1", {"bolt": -5}), 45),
}


@pytest.mark.parametrize("verb", CALLS)
def test_a_call_whose_commit_was_not_answered_has_one_effect(ledger, far, relay, commit, verb):
    call, left = CALLS[verb]
    relay.lose_answer(commit)

    made = call(far)

    assert relay.lost == 1
    # It was done again under its id, and found what the first time had written.
    assert made.replayed
    assert made == call(far) == call(ledger)
    assert ledger.stock("bolt").available == left
    assert ledger.audit().ok


@pytest.mark.parametrize("verb", ["deduct", "hold", "give_back"])
def test_a_caller_that_gave_up_may_call_again_under_the_same_id(ledger, far, relay, commit, verb):
    call, left = CALLS[verb]
    relay.lose_answer(commit)

    with far.database.hasty(1), pytest.raises(DatabaseUnavailable):
        call(far)

    assert ledger.stock("bolt").available == left
    assert call(far).replayed
    assert ledger.stock("bolt").available == left
    assert ledger.audit().ok


@pytest.mark.parametrize("at", [b"windlass_stock as t", b"insert into windlass_stock_entry"])
def test_a_connection_that_is_cut_in_the_middle_changes_nothing_by_itself(ledger, far, relay, at):
    relay.lose_answer(at)

    made = far.deduct("order-7", {"bolt": 5}, hold="15m")

    assert relay.lost == 1
    assert not made.replayed
    assert ledger.stock("bolt").available == 45
    assert ledger.audit().ok


def test_a_database_handed_in_is_used_as_it_is(database_url):
    database = Database(database_url)
    ledger = Ledger(database)

    ledger.restock("delivery-1", {"bolt": 1})

    assert ledger.database is database
    ledger.close()

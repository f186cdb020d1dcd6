"""A lane answers as the ledger does: one id, one answer, whatever the cache remembers."""

import asyncio
from contextlib import closing

import pytest
from sqlalchemy import text

from windlass import App
from windlass.errors import BadInput
from windlass.ledger import IdConflict, InvalidQuantity, OutOfStock, OverReturn, UnknownSku

pytestmark = pytest.mark.mostly("sqlite", "postgresql")


def forget(hot) -> None:
    """The cache forgets every id, as it does after a time."""
    client = hot.cache._client
    for key in client.scan_iter(f"windlass:hot:{hot.decider.epoch().token}:*"):
        client.delete(key)


def work(url: str) -> None:
    """A worker does what is due; any app's will do."""
    with closing(App(url)) as app:

        @app.task
        def nothing() -> None: ...

        app.drain()


@pytest.mark.parametrize("after", ["at once", "forgotten", "synced", "both", "renewed"])
def test_the_same_id_gets_the_same_answer(bolts, after):
    first = bolts.deduct("order-1", {"bolt": 5})
    if after in ("synced", "both"):
        bolts.catch_up()
    if after in ("forgotten", "both"):
        forget(bolts)
    if after == "renewed":
        bolts.recover()

    again = bolts.deduct("order-1", {"bolt": 5})
    with pytest.raises(IdConflict, match="'bolt' is 6, it was 5"):
        bolts.deduct("order-1", {"bolt": 6})

    assert again == first
    assert again.replayed
    assert bolts.deduct("order-2", {"bolt": 55})
    bolts.catch_up()
    assert bolts.audit().ok


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_refusal_is_remembered(bolts, is_synced):
    with pytest.raises(OutOfStock):
        bolts.deduct("order-1", {"bolt": 61})
    if is_synced:
        bolts.catch_up()

    bolts.allot({"bolt": 10})

    with pytest.raises(OutOfStock) as refused:
        bolts.deduct("order-1", {"bolt": 61})
    assert refused.value.available == 60
    assert bolts.deduct("order-2", {"bolt": 70})


def test_all_lines_are_taken_or_none(ledger, bolts):
    bolts.allot({"nut": 10})

    with pytest.raises(OutOfStock) as refused:
        bolts.deduct("order-1", {"bolt": 5, "nut": 11})

    assert (refused.value.sku, refused.value.available) == ("nut", 10)
    assert ledger.stock("bolt").allotted == 60
    assert bolts.deduct("order-2", {"bolt": 60, "nut": 10})
    assert bolts.audit().ok


def test_what_is_not_allotted_is_sold_by_the_book(ledger, bolts):
    assert bolts.deduct("order-1", {"nut": 50})
    with pytest.raises(UnknownSku):
        bolts.deduct("order-2", {"gold": 1})
    with pytest.raises(InvalidQuantity):
        bolts.deduct("order-3", {"bolt": 0})

    assert ledger.stock("nut").available == 0


def test_an_id_that_the_book_knows_takes_nothing_from_the_cache(ledger, bolts):
    ledger.deduct("order-1", {"bolt": 5})

    again = bolts.deduct("order-1", {"bolt": 5})

    assert again.replayed
    assert ledger.stock("bolt").allotted == 60
    assert bolts.deduct("order-2", {"bolt": 60})


def test_returns_go_to_the_book_also_before_the_sync(ledger, bolts):
    bolts.deduct("order-1", {"bolt": 5})

    bolts.give_back("order-1", "return-1", {"bolt": 2})
    bolts.exchange("order-1", "exchange-1", back={"bolt": 1}, out={"nut": 1})
    with pytest.raises(OverReturn):
        bolts.give_back("order-1", "return-2", {"bolt": 3})
    left = bolts.void("order-1")

    assert {line.sku: line.quantity for line in left.lines} == {"bolt": 2, "nut": 1}
    stock = ledger.stock("bolt")
    assert (stock.available, stock.allotted) == (45, 55)
    assert bolts.audit().ok


def test_a_hold_is_confirmed_or_lapses(ledger, bolts, database_url):
    bolts.deduct("order-1", {"bolt": 5}, hold="15m")
    bolts.deduct("order-2", {"bolt": 5}, hold="1us")

    confirmed = bolts.confirm("order-1")
    bolts.catch_up()
    work(database_url)

    assert confirmed.deduction == "order-1"
    assert str(ledger.deduction("order-1").status) == "deducted"
    assert str(ledger.deduction("order-2").status) == "lapsed"
    assert bolts.audit().ok


def test_the_same_id_twice_in_one_group_is_one_deduction(ledger, bolts):
    async def both():
        asked = (bolts.adeduct("order-1", {"bolt": 5}) for _ in range(2))
        return await asyncio.gather(*asked)

    first, second = asyncio.run(both())

    assert first == second
    assert ledger.stock("bolt").allotted == 55


def test_workers_bring_records_into_the_book(ledger, bolts, database_url):
    for number in range(20):
        bolts.deduct(f"order-{number}", {"bolt": 1})

    work(database_url)

    assert ledger.stock("bolt").unsynced == 0
    assert ledger.stock("bolt").deducted == 20
    assert bolts.audit().ok


def test_a_lane_takes_only_its_own_skus(ledger, redis):
    ledger.restock("delivery-1", {"bolt": 100, "nut": 50})
    with ledger.hot(redis.url, skus=["bolt"]) as hot:
        with pytest.raises(BadInput, match="not one of this lane's skus"):
            hot.allot({"nut": 1})
        with pytest.raises(OutOfStock):
            hot.allot({"bolt": 101})

    assert ledger.stock("bolt").available == 100
    for wrong in ("http://somewhere", 5):
        with pytest.raises(BadInput):
            ledger.hot(wrong)
    with pytest.raises(BadInput):
        ledger.hot(redis.url, refill=0)


def test_a_refill_allots_before_anybody_is_refused(ledger, redis):
    ledger.restock("delivery-1", {"bolt": 100})
    with ledger.hot(redis.url, skus=lambda sku: sku == "bolt", refill=30) as hot:
        for number in range(10):
            hot.deduct(f"order-{number}", {"bolt": 10})
        with pytest.raises(OutOfStock):
            hot.deduct("order-10", {"bolt": 1})
        hot.catch_up()
        assert hot.audit().ok

    stock = ledger.stock("bolt")
    assert (stock.available, stock.allotted, stock.deducted) == (0, 0, 100)


def test_the_housekeeping_refills_what_is_low(ledger, redis):
    ledger.restock("delivery-1", {"bolt": 100})
    with ledger.hot(redis.url, skus=["bolt"], refill=40) as hot:
        hot.deduct("order-1", {"bolt": 25})
        hot.tick()

        assert ledger.stock("bolt").allotted == 55


def test_an_audit_finds_rows_that_were_changed(ledger, bolts):
    bolts.deduct("order-1", {"bolt": 5})
    assert ledger.audit().ok

    with ledger.database.engine.begin() as connection:
        connection.execute(text("update windlass_hot_allotment set recorded = recorded + 1"))
    problems = "; ".join(ledger.audit().problems)

    assert "60 left the book, but its lanes have 60" not in problems
    assert "6 not in the book, but its batches say 5" in problems


def test_an_answer_that_the_book_contradicts_is_told_by_the_audit(ledger, bolts):
    bolts.deduct("order-1", {"bolt": 5})
    # Somebody uses the id in the book, past the lane.
    ledger.deduct("order-1", {"bolt": 4})

    bolts.catch_up()

    (problem,) = ledger.audit().problems
    assert "'order-1' was answered, but is not in the book" in problem
    assert ledger.stock("bolt").available == 41

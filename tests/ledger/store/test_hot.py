"""The statements of hot lanes do the same on all four databases."""

import pytest

from windlass.ledger import OutOfStock


def test_what_a_lane_sells_gets_into_the_book_with_the_same_answer(ledger, bolts):
    made = [bolts.deduct(f"order-{number}", {"bolt": number}) for number in (1, 2, 3)]
    with pytest.raises(OutOfStock):
        bolts.deduct("order-4", {"bolt": 55})

    before = ledger.stock("bolt")
    bolts.catch_up()

    assert (before.available, before.allotted, before.unsynced) == (40, 54, 6)
    after = ledger.stock("bolt")
    assert (after.available, after.allotted, after.unsynced, after.deducted) == (40, 54, 0, 6)
    assert [ledger.deduction(each.id) for each in made] == made
    assert str(ledger.deduction("order-4").status) == "refused"
    assert bolts.audit().ok


def test_an_order_of_the_lane_and_of_the_book_is_one_deduction(ledger, bolts):
    made = bolts.deduct("order-1", {"bolt": 5, "nut": 7})
    with pytest.raises(OutOfStock):
        bolts.deduct("order-2", {"bolt": 1, "nut": 44})

    assert ledger.deduction("order-1") == made
    assert (ledger.stock("bolt").allotted, ledger.stock("nut").available) == (55, 43)
    assert bolts.audit().ok


def test_the_book_sells_what_was_recalled(ledger, bolts):
    bolts.deduct("order-1", {"bolt": 5})

    moved = bolts.recall("bolt")
    bolts.deduct("order-2", {"bolt": 95})

    assert moved == {"bolt": 55}
    bolts.catch_up()
    stock = ledger.stock("bolt")
    assert (stock.available, stock.allotted, stock.received, stock.deducted) == (0, 0, 100, 100)
    assert bolts.audit().ok


def test_a_new_epoch_keeps_what_is_recorded_and_forgets_the_rest(ledger, bolts):
    bolts.deduct("order-1", {"bolt": 5})
    number = bolts.decider.epoch().number

    assert bolts.recover() == number + 1

    again = bolts.deduct("order-1", {"bolt": 5})
    assert again.replayed
    assert bolts.deduct("order-2", {"bolt": 55}).id == "order-2"
    with pytest.raises(OutOfStock):
        bolts.deduct("order-3", {"bolt": 1})
    assert bolts.audit().ok


def test_a_void_that_comes_first_keeps_the_order_out(ledger, bolts):
    voided = bolts.void("order-1")
    again = bolts.void("order-1")

    with pytest.raises(Exception, match="voided before it was made"):
        bolts.deduct("order-1", {"bolt": 5})
    assert (voided.lines, voided.replayed, again.replayed) == ((), False, True)
    assert ledger.stock("bolt").allotted == 60
    assert bolts.audit().ok


def test_records_cannot_sell_more_than_the_book_allotted(ledger, bolts):
    epoch = bolts.decider.epoch()
    # A cache that lies.
    bolts.cache._client.hset(f"windlass:hot:{epoch.token}", "limit:bolt", 10_000)

    with pytest.raises(OutOfStock) as refused:
        bolts.deduct("order-1", {"bolt": 61})

    assert refused.value.available == 60
    assert bolts.decider.epoch().number == epoch.number + 1
    assert ledger.stock("bolt").allotted == 60
    assert bolts.audit().ok

"""Giving back: only what was deducted, in any number of parts, never more."""

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing

import pytest

from windlass.ledger import (
    DeductionLine,
    DeductionStatus,
    IdConflict,
    Ledger,
    Line,
    Movement,
    OutOfStock,
    OverReturn,
    UnknownDeduction,
    UnknownSku,
)


@pytest.fixture
def ordered(ledger: Ledger) -> Ledger:
    """A ledger with one order."""
    ledger.restock("delivery-1", {"bolt": 100, "nut": 100})
    ledger.deduct("order-7", {"bolt": 5, "nut": 5})
    return ledger


def available(ledger: Ledger) -> dict[str, int]:
    return {stock.sku: stock.available for stock in ledger.stocks()}


def test_a_deduction_is_given_back_in_parts(ordered):
    first = ordered.give_back("order-7", "return-1", {"bolt": 2})
    ordered.give_back("order-7", "return-2", {"bolt": 3, "nut": 1})

    assert first.lines == (Line("bolt", 2),)
    assert available(ordered) == {"bolt": 100, "nut": 96}
    assert ordered.deduction("order-7").lines == (
        DeductionLine("bolt", 5, 5),
        DeductionLine("nut", 5, 1),
    )
    assert [made.id for made in ordered.returns("order-7")] == ["return-1", "return-2"]
    assert ordered.audit().ok


def test_giving_back_twice_under_one_id_counts_once(ordered):
    first = ordered.give_back("order-7", "return-1", {"bolt": 5})
    again = ordered.give_back("order-7", "return-1", {"bolt": 5})

    assert (again, again.replayed) == (first, True)
    assert ordered.stock("bolt").available == 100


def test_more_than_was_deducted_is_refused_and_nothing_of_it_is_given_back(ordered):
    ordered.give_back("order-7", "return-1", {"bolt": 3})

    with pytest.raises(OverReturn) as refused:
        ordered.give_back("order-7", "return-2", {"bolt": 3, "nut": 1})

    assert (refused.value.sku, refused.value.wanted, refused.value.returnable) == ("bolt", 3, 2)
    assert available(ordered) == {"bolt": 98, "nut": 95}


def test_a_refused_return_stays_refused(ordered):
    with pytest.raises(OverReturn):
        ordered.give_back("order-7", "return-1", {"bolt": 6})

    with pytest.raises(OverReturn):
        ordered.give_back("order-7", "return-1", {"bolt": 6})
    with pytest.raises(IdConflict) as conflict:
        ordered.give_back("order-7", "return-1", {"bolt": 5})

    assert conflict.value.difference == "sku 'bolt' is 5, it was 6"
    assert ordered.returns("order-7") == []


def test_what_was_not_deducted_cannot_be_given_back(ordered):
    ordered.restock("delivery-2", {"screw": 10})

    with pytest.raises(OverReturn) as refused:
        ordered.give_back("order-7", "return-1", {"screw": 1})

    assert refused.value.returnable == 0


def test_a_return_of_an_unknown_deduction_stays_unknown_under_that_id(ordered):
    with pytest.raises(UnknownDeduction):
        ordered.give_back("order-8", "return-1", {"bolt": 1})
    ordered.deduct("order-8", {"bolt": 1})

    with pytest.raises(UnknownDeduction):
        ordered.give_back("order-8", "return-1", {"bolt": 1})
    ordered.give_back("order-8", "return-2", {"bolt": 1})

    assert ordered.stock("bolt").available == 95


def test_a_refused_deduction_has_nothing_to_give_back(ordered):
    with pytest.raises(OutOfStock):
        ordered.deduct("order-8", {"bolt": 1_000})

    with pytest.raises(UnknownDeduction):
        ordered.give_back("order-8", "return-1", {"bolt": 1})


def test_one_return_id_serves_each_deduction(ordered):
    ordered.deduct("order-8", {"bolt": 5})

    ordered.give_back("order-7", "return-1", {"bolt": 1})
    ordered.give_back("order-8", "return-1", {"bolt": 2})

    assert ordered.stock("bolt").available == 93


def test_voiding_gives_back_what_is_left_once(ordered):
    ordered.give_back("order-7", "return-1", {"bolt": 2})

    first = ordered.void("order-7")
    again = ordered.void("order-7")

    assert first.lines == (Line("bolt", 3), Line("nut", 5))
    assert (again, again.replayed) == (first, True)
    assert available(ordered) == {"bolt": 100, "nut": 100}
    assert ordered.deduction("order-7").status is DeductionStatus.VOIDED
    with pytest.raises(OverReturn):
        ordered.give_back("order-7", "return-2", {"bolt": 1})
    assert ordered.audit().ok


def test_voiding_what_never_came_keeps_it_from_ever_taking_effect(ordered):
    ordered.void("order-8")

    with pytest.raises(IdConflict, match="voided before it was made"):
        ordered.deduct("order-8", {"bolt": 1})

    assert ordered.stock("bolt").available == 95
    assert ordered.deduction("order-8").status is DeductionStatus.VOIDED
    with pytest.raises(UnknownDeduction):
        ordered.give_back("order-8", "return-1", {"bolt": 1})
    assert ordered.void("order-8").lines == ()
    assert ordered.audit().ok


def test_voiding_a_refused_deduction_changes_nothing(ordered):
    with pytest.raises(OutOfStock):
        ordered.deduct("order-8", {"bolt": 1_000})

    assert ordered.void("order-8").lines == ()

    with pytest.raises(OutOfStock):
        ordered.deduct("order-8", {"bolt": 1_000})


def test_restocking_twice_under_one_id_counts_once(ledger):
    first = ledger.restock("delivery-1", {"bolt": 10})
    again = ledger.restock("delivery-1", {"bolt": 10})

    assert (again, again.replayed) == (first, True)
    assert ledger.stock("bolt").received == 10
    with pytest.raises(IdConflict):
        ledger.restock("delivery-1", {"bolt": 11})


def test_an_adjustment_has_a_sign_and_takes_no_more_than_there_is(ledger):
    ledger.restock("delivery-1", {"bolt": 10, "nut": 10})

    ledger.adjust("count-1", {"bolt": -3, "nut": 2}, reason="counted")
    with pytest.raises(OutOfStock) as refused:
        ledger.adjust("count-2", {"bolt": -8, "nut": 2})
    with pytest.raises(UnknownSku):
        ledger.adjust("count-3", {"screw": 1})
    with pytest.raises(IdConflict, match="reason is 'stolen', it was 'counted'"):
        ledger.adjust("count-1", {"bolt": -3, "nut": 2}, reason="stolen")

    assert (refused.value.wanted, refused.value.available) == (8, 7)
    assert available(ledger) == {"bolt": 7, "nut": 12}
    assert ledger.audit().ok


def test_a_restock_and_an_adjustment_may_have_the_same_id(ledger):
    ledger.restock("one", {"bolt": 10})
    ledger.adjust("one", {"bolt": 5})

    assert ledger.stock("bolt").available == 15


def test_the_entries_of_a_sku_are_its_balance(ordered):
    ordered.give_back("order-7", "return-1", {"bolt": 2})
    ordered.adjust("count-1", {"bolt": -1})
    ordered.void("order-7")

    entries = ordered.entries("bolt")

    assert [(entry.quantity, entry.movement, entry.return_id) for entry in entries] == [
        (100, Movement.RESTOCK, None),
        (-5, Movement.DEDUCT, None),
        (2, Movement.RETURN, "return-1"),
        (-1, Movement.ADJUST, None),
        (3, Movement.VOID, "windlass:void"),
    ]
    assert sum(entry.quantity for entry in entries) == ordered.stock("bolt").available
    assert ordered.entries("bolt", after=entries[1].id, limit=2) == entries[2:4]


def test_stocks_are_listed_by_sku_in_pages_or_by_name(ledger):
    ledger.restock("delivery-1", {"a": 1, "B": 2, "ä": 3, "c": 4})

    assert [stock.sku for stock in ledger.stocks()] == ["B", "a", "c", "ä"]
    assert [stock.sku for stock in ledger.stocks(after="a", limit=1)] == ["c"]
    assert [stock.sku for stock in ledger.stocks(["ä", "a", "none"])] == ["a", "ä"]
    with pytest.raises(UnknownSku):
        ledger.stock("none")


def test_a_restock_that_conflicts_makes_no_sku_known(ledger):
    ledger.restock("delivery-1", {"bolt": 10})

    with pytest.raises(IdConflict):
        ledger.restock("delivery-1", {"bolt": 10, "nut": 5})

    assert [stock.sku for stock in ledger.stocks()] == ["bolt"]


def test_a_return_that_comes_in_the_middle_of_a_void_waits_for_its_end(ordered, database_url):
    """What the void has read of the lines is what it gives back."""
    load_stock = ordered._executor._rows._load_stock
    with closing(Ledger(database_url)) as other, ThreadPoolExecutor(1) as threads:
        other.stock("bolt")
        racing = []

        def in_the_middle(*args) -> None:
            racing.append(threads.submit(other.give_back, "order-7", "return-1", {"bolt": 1}))
            wait(racing, 0.5)
            load_stock(*args)

        ordered._executor._rows._load_stock = in_the_middle
        voided = ordered.void("order-7")

        assert voided.lines == (Line("bolt", 5), Line("nut", 5))
        assert isinstance(racing[0].exception(30), OverReturn)
    assert ordered.audit().ok

"""Deducting: all lines or none, and one answer for each id for ever."""

import pytest

from windlass.ledger import (
    DeductionLine,
    DeductionStatus,
    IdConflict,
    Ledger,
    OutOfStock,
    UnknownDeduction,
    UnknownSku,
)


@pytest.fixture
def stocked(ledger: Ledger) -> Ledger:
    ledger.restock("delivery-1", {"bolt": 10, "nut": 10})
    return ledger


def available(ledger: Ledger) -> dict[str, int]:
    return {stock.sku: stock.available for stock in ledger.stocks()}


def test_a_deduction_takes_all_its_lines(stocked):
    made = stocked.deduct("order-7", {"nut": 5, "bolt": 4})

    assert made.lines == (DeductionLine("bolt", 4), DeductionLine("nut", 5))
    assert made.status is DeductionStatus.DEDUCTED
    assert not made.replayed
    assert available(stocked) == {"bolt": 6, "nut": 5}
    assert stocked.deduction("order-7") == made
    assert stocked.audit().ok


def test_a_deduction_that_lacks_one_line_takes_none(stocked):
    with pytest.raises(OutOfStock) as refused:
        stocked.deduct("order-7", {"bolt": 4, "nut": 11})

    assert (refused.value.sku, refused.value.wanted, refused.value.available) == ("nut", 11, 10)
    assert available(stocked) == {"bolt": 10, "nut": 10}
    assert stocked.deduction("order-7").status is DeductionStatus.REFUSED
    assert stocked.deduction("order-7").lines == ()


def test_the_same_id_with_the_same_body_has_one_effect_and_one_answer(stocked):
    first = stocked.deduct("order-7", {"bolt": 4})
    stocked.give_back("order-7", "return-1", {"bolt": 1})
    stocked.void("order-7")

    again = stocked.deduct("order-7", [("bolt", 4)])

    assert again == first
    assert again.replayed
    assert available(stocked) == {"bolt": 10, "nut": 10}


def test_a_refused_id_stays_refused_and_a_new_one_may_succeed(stocked):
    with pytest.raises(OutOfStock):
        stocked.deduct("order-7", {"bolt": 11})
    stocked.restock("delivery-2", {"bolt": 5})

    with pytest.raises(OutOfStock) as again:
        stocked.deduct("order-7", {"bolt": 11})
    stocked.deduct("order-7b", {"bolt": 11})

    assert again.value.available == 10
    assert available(stocked) == {"bolt": 4, "nut": 10}


def test_a_sku_that_was_never_received_is_unknown_forever_under_that_id(stocked):
    with pytest.raises(UnknownSku) as refused:
        stocked.deduct("order-7", {"bolt": 1, "screw": 1})
    stocked.restock("delivery-2", {"screw": 5})

    with pytest.raises(UnknownSku):
        stocked.deduct("order-7", {"bolt": 1, "screw": 1})

    assert refused.value.sku == "screw"
    assert available(stocked) == {"bolt": 10, "nut": 10, "screw": 5}


@pytest.mark.parametrize(
    ("body", "difference"),
    [
        ({"bolt": 5}, "sku 'bolt' is 5, it was 4; sku 'nut' is missing, it was 1"),
        ({"bolt": 4, "nut": 1, "screw": 2}, "sku 'screw' was not in it"),
        ({"bolt": 4, "nut": 2}, "sku 'nut' is 2, it was 1"),
    ],
)
def test_another_body_under_the_same_id_is_a_conflict_that_says_what_differs(
    stocked, body, difference
):
    stocked.deduct("order-7", {"bolt": 4, "nut": 1})

    with pytest.raises(IdConflict) as conflict:
        stocked.deduct("order-7", body)

    assert (conflict.value.id, conflict.value.difference) == ("order-7", difference)
    assert available(stocked) == {"bolt": 6, "nut": 9}


def test_a_hold_is_a_part_of_the_body(stocked):
    stocked.deduct("order-7", {"bolt": 4}, hold="15m")

    with pytest.raises(IdConflict, match="hold is none, it was 900 s"):
        stocked.deduct("order-7", {"bolt": 4})


def test_a_refused_body_conflicts_with_another_body(stocked):
    with pytest.raises(OutOfStock):
        stocked.deduct("order-7", {"bolt": 11})

    with pytest.raises(IdConflict):
        stocked.deduct("order-7", {"bolt": 1})


def test_the_same_sku_twice_is_added_up_first(stocked):
    made = stocked.deduct("order-7", [("bolt", 4), ("nut", 1), ("bolt", 3)])

    assert made.lines == (DeductionLine("bolt", 7), DeductionLine("nut", 1))
    with pytest.raises(OutOfStock) as refused:
        stocked.deduct("order-8", [("bolt", 2), ("bolt", 2)])
    assert (refused.value.wanted, refused.value.available) == (4, 3)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_thousands_of_lines_are_one_deduction(ledger, count):
    many = {f"sku-{number}": 3 for number in range(count)}

    take_and_give_back(ledger, "order-7", many)

    assert {stock.available for stock in ledger.stocks()} == {3}
    assert ledger.audit().ok


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_lines_with_the_longest_names_are_one_deduction(ledger):
    """They are more than travel in one message."""
    longest = "🔩" * 215
    many = {f"{number}{longest}": 3 for number in range(2_500)}

    take_and_give_back(ledger, longest, many)

    assert {stock.available for stock in ledger.stocks()} == {3}


def take_and_give_back(ledger: Ledger, order: str, many: dict[str, int]) -> None:
    ledger.restock("delivery-1", many)
    made = ledger.deduct(order, many)
    ledger.give_back(order, "return-1", dict.fromkeys(many, 1))
    ledger.void(order)
    assert len(made.lines) == len(many)


def test_a_deduction_that_nobody_made_is_unknown(ledger):
    with pytest.raises(UnknownDeduction) as unknown:
        ledger.deduction("order-7")

    assert unknown.value.id == "order-7"

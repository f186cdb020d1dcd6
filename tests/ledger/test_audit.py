"""The audit sees whatever is not as it should be, says it, and repairs nothing."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from windlass.ledger import Ledger, OutOfStock, OverReturn


@pytest.fixture
def told(ledger: Ledger) -> Ledger:
    """A ledger in which a bit of everything has happened."""
    ledger.restock("delivery-1", {"bolt": 100, "nut": 100})
    ledger.adjust("count-1", {"bolt": -1})
    ledger.deduct("order-7", {"bolt": 5, "nut": 5})
    ledger.give_back("order-7", "return-1", {"bolt": 2})
    ledger.deduct("order-8", {"bolt": 5})
    ledger.void("order-8")
    ledger.void("order-9")
    with pytest.raises(OutOfStock):
        ledger.deduct("order-10", {"bolt": 1_000})
    with pytest.raises(OverReturn):
        ledger.give_back("order-7", "return-2", {"bolt": 9})
    assert ledger.audit().problems == ()
    return ledger


def change(ledger: Ledger, statement: str) -> None:
    ledger.database.write(lambda connection: connection.execute(text(statement)))


BROKEN = [
    (
        "update windlass_stock set available = 0, received = 3 where sku = 'bolt'",
        "stock 'bolt': 0 available, but its entries add up to 96",
    ),
    (
        "update windlass_stock set deducted = 11, returned = 8 where sku = 'bolt'",
        "but the lines of its deductions say 10, 7",
    ),
    ("delete from windlass_stock where sku = 'nut'", "stock 'nut': there are entries"),
    (
        "delete from windlass_stock_entry where movement = 'deduct' and sku = 'nut'",
        "deduction 'order-7', sku 'nut': 5 deducted, but its entries say 0",
    ),
    (
        "update windlass_stock_entry set quantity = 3 where return_id = 'return-1'",
        "return 'return-1' of deduction 'order-7', sku 'bolt': 2 came back, but its entries say 3",
    ),
    (
        "update windlass_deduction_line set returned = 3 where returned = 2",
        "deduction 'order-7', sku 'bolt': 3 returned, but its returns add up to 2",
    ),
    (
        "update windlass_deduction set status = 3 where id = 'order-7'",
        "deduction 'order-7' is over, but 8 did not come back",
    ),
    ("delete from windlass_deduction where id = 'order-7'", "'order-7': there are lines of it"),
    (
        "delete from windlass_deduction_line where deduction_id = 'order-8'",
        "deduction 'order-8' was made, but it has no lines",
    ),
    (
        "insert into windlass_deduction_line values ('order-10', 'bolt', 1, 0)",
        "deduction 'order-10' was refused or never came, but it has lines",
    ),
    (
        "insert into windlass_return_line values ('order-7', 'return-2', 'bolt', 1)",
        "return 'return-2' of deduction 'order-7' was refused or never came",
    ),
    (
        "delete from windlass_stock_receipt where id = 'delivery-1'",
        "restock 'delivery-1' was refused or never came, but it has 2 entries",
    ),
    (
        "delete from windlass_stock_entry where reference = 'count-1'",
        "adjust 'count-1' was made, but it has no entries",
    ),
]


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize(("statement", "words"), BROKEN)
def test_whatever_is_broken_by_hand_is_seen_and_left(told, statement, words):
    change(told, statement)

    found = told.audit()

    assert not found.ok
    assert any(words in problem for problem in found.problems), found.problems
    assert told.audit() == found


REFUSED = [
    "update windlass_stock set available = -1, received = received - 97 where sku = 'bolt'",
    "update windlass_stock set available = available + 1 where sku = 'bolt'",
    "update windlass_stock set returned = 11, received = received - 4 where sku = 'bolt'",
    "update windlass_deduction_line set returned = 6 where sku = 'bolt'",
    "update windlass_deduction_line set returned = -1 where sku = 'bolt'",
    "update windlass_deduction_line set quantity = 0, returned = 0 where sku = 'nut'",
    "update windlass_return_line set quantity = 0",
    "update windlass_stock_entry set quantity = 0",
    "insert into windlass_stock_return values ('order-7', 'return-1', '{}', null, 1)",
    "insert into windlass_return_line values ('order-7', 'return-1', 'bolt', 1)",
]


@pytest.mark.parametrize("statement", REFUSED)
def test_the_database_itself_refuses_what_can_never_be(told, statement):
    with pytest.raises(DBAPIError):
        change(told, statement)

    assert told.audit().ok
    assert told.stock("bolt").available == 96


def test_of_many_rows_that_break_one_rule_the_first_are_told(ledger):
    ledger.restock("delivery-1", {f"sku-{number:03}": 1 for number in range(50)})
    change(ledger, "delete from windlass_stock_entry")

    problems = ledger.audit().problems

    assert len(problems) < 60
    assert any("and more of this sort" in problem for problem in problems)

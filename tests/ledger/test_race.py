"""Many processes at the same moment: nobody gets what is not there, nothing counts twice."""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.spawn import run_forked
from windlass.ledger import DeductionStatus, Ledger

ROOT = Path(__file__).resolve().parents[2]


def crowd(*arguments: object) -> list[str]:
    """The answers of the processes."""
    command = [sys.executable, "-m", "tests.ledger.crowd", *map(str, arguments)]
    return json.loads(run_forked(command, cwd=ROOT, timeout=100).stdout)


@pytest.mark.mostly("postgresql")
@pytest.mark.parametrize(("verb", "total"), [("deduct", 50), ("hold", 12)])
def test_of_many_processes_one_gets_the_last_unit(ledger, database_url, verb, total):
    ledger.restock("delivery-1", {"bolt": 1})

    answers = Counter(crowd("race", database_url, total, verb))

    assert answers == {"done": 1, "OutOfStock": total - 1}
    assert ledger.stock("bolt").available == 0
    assert ledger.audit().ok


@pytest.mark.mostly("mariadb")
def test_of_twenty_returns_of_one_line_no_more_succeed_than_were_deducted(ledger, database_url):
    ledger.restock("delivery-1", {"bolt": 100})
    ledger.deduct("order", {"bolt": 8})

    answers = Counter(crowd("race", database_url, 20, "give_back"))

    assert answers == {"done": 8, "OverReturn": 12}
    assert ledger.stock("bolt").available == 100
    assert ledger.audit().ok


@pytest.mark.mostly("postgresql")
def test_returns_that_race_with_a_void_leave_it_the_rest(ledger, database_url):
    ledger.restock("delivery-1", {"bolt": 100})
    ledger.deduct("order", {"bolt": 50})

    answers = crowd("race", database_url, 12, "give_back_or_void")

    assert set(answers) <= {"done", "OverReturn"}
    assert ledger.stock("bolt").available == 100
    assert ledger.audit().ok


@pytest.mark.mostly("mariadb")
@pytest.mark.parametrize("verb", ["same_id", "same_return", "void"])
def test_one_id_used_by_many_processes_has_one_effect(ledger, database_url, verb):
    ledger.restock("delivery-1", {"bolt": 100})
    if verb != "same_id":
        ledger.deduct("order", {"bolt": 8})

    answers = crowd("race", database_url, 8, verb)

    assert set(answers) == {"done"}
    left = {"same_id": 99, "same_return": 93, "void": 100}
    assert ledger.stock("bolt").available == left[verb]
    assert ledger.audit().ok


@pytest.mark.mostly("mariadb")
def test_a_new_sku_may_come_in_from_many_sides_at_once(ledger, database_url):
    answers = crowd("race", database_url, 8, "restock")

    assert set(answers) == {"done"}
    assert [stock.available for stock in ledger.stocks()] == [8, 8]
    assert ledger.audit().ok


@pytest.mark.mostly("postgresql")
def test_orders_that_name_their_skus_in_different_order_do_not_block_each_other(
    ledger, database_url
):
    ledger.restock("delivery-1", {f"sku-{number}": 8 for number in range(5)})

    answers = Counter(crowd("race", database_url, 12, "deduct_crossed"))

    assert answers == {"done": 8, "OutOfStock": 4}
    assert {stock.available for stock in ledger.stocks()} == {0}
    assert ledger.audit().ok


@pytest.mark.mostly("postgresql")
@pytest.mark.parametrize("verb", ["deduct_two", "hold_two", "give_back_two"])
def test_a_call_that_is_killed_anywhere_and_made_again_has_one_effect(
    ledger: Ledger, database_url, verb
):
    ledger.restock("delivery-1", {"bolt": 1_000, "nut": 1_000})
    ledger.deduct("order", {"bolt": 500, "nut": 500})

    answers = crowd("kill", database_url, verb)

    # Some die before they write, some in the middle, and the last after the commit.
    is_one_statement = ledger._executor._rows.saves_if_met and verb != "hold_two"
    assert len(answers) >= (3 if is_one_statement else 6)
    assert set(answers) == {"done"}
    # One more was not killed, because it was over before its boundary.
    times = len(answers) + 1
    sign = 1 if verb == "give_back_two" else -1
    assert ledger.stock("bolt").available == 500 + sign * times
    assert ledger.stock("nut").available == 500 + sign * times * 2
    if verb != "give_back_two":
        made = [ledger.deduction(f"order-{number}") for number in range(1, times + 1)]
        status = {"hold_two": DeductionStatus.HELD, "deduct_two": DeductionStatus.DEDUCTED}[verb]
        assert {each.status for each in made} == {status}
    assert ledger.audit().ok

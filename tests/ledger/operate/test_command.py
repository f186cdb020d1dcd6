"""`windlass ledger stock|show|entries|exchange|protect|audit`."""

import re

import pytest
from sqlalchemy import text

from windlass.ledger import Ledger, OutOfStock


@pytest.fixture
def ledger(shop):
    ledger = Ledger(shop.app.database)
    ledger.restock("delivery-1", {"bolt": 1_000, "nut": 10})
    ledger.deduct("order-7", {"bolt": 5, "nut": 2}, hold="15m")
    ledger.give_back("order-7", "return-1", {"bolt": 2})
    return ledger


def test_stock_tells_how_much_there_is(windlass, ledger):
    answer = windlass("ledger", "stock")

    assert answer.code == 0
    assert re.search(r"bolt +997 +1,000 +5 +2\n", answer.out)
    assert windlass("ledger", "stock", "nut", "--json").json == [
        {"sku": "nut", "available": 8, "received": 10, "deducted": 2, "returned": 0}
        | {"allotted": 0, "unsynced": 0}
    ]


def test_an_unknown_sku_is_an_error(windlass, ledger):
    answer = windlass("ledger", "stock", "none")

    assert (answer.code, answer.err) == (1, "error: sku 'none' is unknown\n")
    assert windlass("ledger", "entries", "none").code == 1


def test_an_empty_ledger_says_so(windlass, shop):
    assert "no stock" in windlass("ledger", "stock").out
    assert windlass("ledger", "stock", "--json").json == []


def test_show_tells_the_story_of_a_deduction(windlass, ledger):
    answer = windlass("ledger", "show", "order-7")
    found = windlass("ledger", "show", "order-7", "--json").json

    assert answer.code == 0
    assert re.search(r"status +held", answer.out)
    assert re.search(r"bolt +5 +2\n", answer.out)
    assert re.search(r"return-1 .*bolt 2\n", answer.out)
    assert found["status"] == "held"
    assert found["lines"][0] == {"sku": "bolt", "quantity": 5, "returned": 2}
    assert found["returns"][0]["lines"] == [{"sku": "bolt", "quantity": 2}]


def test_show_tells_why_a_deduction_was_refused(windlass, ledger):
    with pytest.raises(OutOfStock):
        ledger.deduct("order-8", {"nut": 50})

    answer = windlass("ledger", "show", "order-8")

    assert "OutOfStock: sku nut, wanted 50, available 8" in answer.out
    assert windlass("ledger", "show", "order-9").code == 1


def test_entries_tell_every_change(windlass, ledger):
    answer = windlass("ledger", "entries", "bolt")
    found = windlass("ledger", "entries", "bolt", "--json").json

    assert re.search(r"restock +\+1,000 +delivery-1 +- *\n", answer.out)
    assert re.search(r"return +\+2 +order-7 +return-1 *\n", answer.out)
    assert [entry["quantity"] for entry in found] == [1_000, -5, 2]
    first = found[0]["id"]
    page = windlass("ledger", "entries", "bolt", "--after", str(first), "--limit", "1", "--json")
    assert page.json == found[1:2]


def test_entries_say_that_there_are_more_and_how_to_see_them(windlass, ledger):
    first = windlass("ledger", "entries", "bolt", "--limit", "2")
    found = windlass("ledger", "entries", "bolt", "--limit", "2", "--json")
    last = found.json[-1]["id"]
    rest = windlass("ledger", "entries", "bolt", "--after", str(last))

    assert f"there are more than these 2; add --after {last} for the next" in first.err
    assert first.err == found.err
    assert re.search(r"return +\+2 +order-7", rest.out)
    assert rest.err == ""
    assert windlass("ledger", "entries", "bolt", "--limit", "3").err == ""


def test_no_entries_are_said_to_be_none(windlass, ledger):
    answer = windlass("ledger", "entries", "bolt", "--after", "1000")

    assert (answer.code, answer.out) == (0, "There are no entries after number 1000.\n")


def test_show_tells_of_a_deduction_that_never_came(windlass, ledger):
    ledger.void("order-9")

    answer = windlass("ledger", "show", "order-9")

    assert re.search(r"voided +\S+ \S+, before it came; it never will", answer.out)
    assert not re.search(r"^made", answer.out, re.MULTILINE)


def test_an_audit_says_whether_the_books_balance(windlass, ledger):
    assert "the books balance" in windlass("ledger", "audit").out
    ledger.database.write(
        lambda connection: connection.execute(
            text("update windlass_stock set available = available - 1, received = received - 1")
        )
    )

    answer = windlass("ledger", "audit")
    found = windlass("ledger", "audit", "--json")

    assert answer.code == 1
    assert "stock 'nut': 7 available, but its entries add up to 8" in answer.err
    assert (found.code, found.json["ok"]) == (1, False)
    assert len(found.json["problems"]) == 4


def test_the_ledger_may_be_in_another_shard(windlass, ledger):
    assert windlass("ledger", "audit", "--shard", "1").code == 0
    assert windlass("ledger", "audit", "--shard", "2").code == 1


def test_an_exchange_is_made_once_shown_and_in_the_audit_log(windlass, shop, ledger):
    command = ("ledger", "exchange", "order-7", "exchange-1", "--back", "bolt=1", "--out", "nut=3")

    first = windlass(*command)
    again = windlass(*command, "--json")
    shown = windlass("ledger", "show", "order-7")

    assert (first.code, again.code) == (0, 0)
    assert "1 bolt of order-7 came back, 3 nut went out" in first.out
    assert again.json["replayed"]
    assert again.json["out"] == [{"sku": "nut", "quantity": 3}]
    assert ledger.stock("nut").available == 5
    assert re.search(r"exchange-1 .*bolt 1 +nut 3", shown.out)
    deeds = windlass("audit", "--json").json
    assert [deed["action"] for deed in deeds].count("ledger.exchange") == 2


@pytest.mark.parametrize("line", ["bolt", "=1", "bolt=", "bolt=-1", "bolt=x"])
def test_an_exchange_that_is_malformed_says_what_a_line_looks_like(windlass, ledger, line):
    command = ("ledger", "exchange", "order-7", "exchange-1", "--out", "nut=3")

    answer = windlass(*command, "--back", line)

    assert answer.code in (1, 2)
    assert "such as bolt=2" in answer.err
    assert ledger.returns("order-7")[-1].id == "return-1"


def test_entries_are_protected_and_released(windlass, ledger):
    assert windlass("ledger", "protect", "--json").json == {"protected": True}
    assert ledger.is_protected()

    answer = windlass("ledger", "protect", "--remove")

    assert (answer.code, ledger.is_protected()) == (0, False)


def test_a_hot_lane_is_shown_filled_recovered_and_recalled(windlass, ledger, redis, monkeypatch):
    monkeypatch.setenv("WINDLASS_HOT_CACHE", redis.url)

    assert "no hot lanes" in windlass("ledger", "lanes").out
    windlass("ledger", "allot", "sale", "--line", "bolt=8")
    with ledger.hot(redis.url, name="sale") as hot:
        hot.deduct("order-8", {"bolt": 1})
    (lane,) = windlass("ledger", "lanes", "--json").json
    shown = windlass("ledger", "lanes").out
    recovered = windlass("ledger", "recover", "sale", "--json").json
    monkeypatch.delenv("WINDLASS_HOT_CACHE")
    recalled = windlass("ledger", "recall", "sale", "--json").json

    found = lane["skus"][0]
    assert (found["allotted"], found["left"], found["sold"], found["unsynced"]) == (8, 7, 1, 1)
    assert re.search(r"bolt +8 +7 +1 +1 +cache", shown)
    assert (recovered["epoch"], recalled["moved"]) == (lane["epoch"] + 1, {"bolt": 7})
    assert ledger.stock("bolt").available == 996
    assert windlass("ledger", "recall", "nowhere").code == 1

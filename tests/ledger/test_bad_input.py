"""What cannot be used gets a clear error, changes nothing and uses no id."""

import pytest

from windlass.errors import BadDatabase, BadDuration, BadInput, BadKey
from windlass.ledger import InvalidQuantity, Ledger, UnknownDeduction

BODIES = [
    ({"bolt": 0}, InvalidQuantity, "quantity 0 changes nothing"),
    ({"bolt": -1}, InvalidQuantity, "-1 is negative"),
    ({"bolt": 1.0}, InvalidQuantity, "1.0 is not a whole number"),
    ({"bolt": True}, InvalidQuantity, "True is not a whole number"),
    ({"bolt": "1"}, InvalidQuantity, "'1' is not a whole number"),
    ({"bolt": None}, InvalidQuantity, "None is not a whole number"),
    ({"bolt": float("nan")}, InvalidQuantity, "nan is not a whole number"),
    ({"bolt": 10**12 + 1}, InvalidQuantity, "is too large; at most 1000000000000 fit"),
    ({"bolt": 10**5_000}, InvalidQuantity, "is too large"),
    ([("bolt", 10**12), ("bolt", 1)], InvalidQuantity, "is too large"),
    ({}, BadInput, "no lines"),
    ([], BadInput, "no lines"),
    ([(f"sku-{n}", 1) for n in range(10_001)], BadInput, "more than 10,000 lines"),
    ("bolt", BadInput, "give a mapping"),
    (None, BadInput, "give a mapping"),
    (7, BadInput, "give a mapping"),
    (["bolt"], BadInput, "not a pair"),
    ([("bolt", 1, 2)], BadInput, "not a pair"),
    ({"": 1}, BadKey, "sku is empty"),
    ({"x" * 256: 1}, BadKey, "256 characters; at most 255 fit"),
    ({"🔩" * 221: 1}, BadKey, "884 bytes in UTF-8; at most 880 fit"),
    ({"nul\x00": 1}, BadKey, "cannot store"),
    ({"half \ud800": 1}, BadKey, "cannot store"),
    ({7: 1}, BadKey, "sku 7 is not text"),
    ({b"bolt": 1}, BadKey, "is not text"),
    ({"windlass:bolt": 1}, BadKey, "is reserved"),
]
IDS = ["", "x" * 256, "🔩" * 221, "nul\x00", "half \udfff", 7, None, b"order", "windlass:void"]


@pytest.fixture
def ledger(sqlite_url):
    """What is refused before a database is asked is the same for all of them."""
    ledger = Ledger(sqlite_url)
    ledger.restock("delivery-1", {"bolt": 10})
    ledger.deduct("order", {"bolt": 5})
    yield ledger
    assert ledger.stock("bolt").available == 5
    assert ledger.audit().ok
    ledger.close()


@pytest.mark.parametrize("verb", ["restock", "adjust", "deduct", "give_back"])
@pytest.mark.parametrize(("body", "error", "words"), BODIES)
def test_lines_that_cannot_be_used_are_refused(ledger, verb, body, error, words):
    ids = ["order", "return-1"] if verb == "give_back" else ["new"]
    if verb == "adjust" and "negative" in words:
        pytest.skip("an adjustment may be negative")

    with pytest.raises(error, match=words):
        getattr(ledger, verb)(*ids, body)

    with pytest.raises(UnknownDeduction):
        ledger.deduction("new")


@pytest.mark.parametrize("bad", IDS)
def test_ids_that_cannot_be_kept_are_refused(ledger, bad):
    for call in (
        lambda: ledger.restock(bad, {"bolt": 1}),
        lambda: ledger.adjust(bad, {"bolt": 1}),
        lambda: ledger.deduct(bad, {"bolt": 1}),
        lambda: ledger.give_back(bad, "return-1", {"bolt": 1}),
        lambda: ledger.give_back("order", bad, {"bolt": 1}),
        lambda: ledger.void(bad),
        lambda: ledger.confirm(bad),
        lambda: ledger.deduction(bad),
        lambda: ledger.stock(bad),
        lambda: ledger.entries(bad),
    ):
        with pytest.raises(BadKey):
            call()


@pytest.mark.parametrize("hold", ["", "soon", "0s", 5, "-1s"])
def test_a_hold_that_cannot_be_read_is_refused(ledger, hold):
    with pytest.raises(BadDuration):
        ledger.deduct("new", {"bolt": 1}, hold=hold)


def test_pages_and_reasons_that_make_no_sense_are_refused(ledger):
    for call in (
        lambda: ledger.stocks("bolt"),
        lambda: ledger.stocks(limit=0),
        lambda: ledger.stocks(limit=True),
        lambda: ledger.entries("bolt", limit=-1),
        lambda: ledger.entries("bolt", after="first"),
        lambda: ledger.adjust("new", {"bolt": 1}, reason="x" * 1_001),
        lambda: ledger.adjust("new", {"bolt": 1}, reason=None),
    ):
        with pytest.raises(BadInput):
            call()


def test_a_ledger_needs_a_database():
    for bad in (None, 7, object()):
        with pytest.raises(BadDatabase, match="neither a URL nor"):
            Ledger(bad)
    with pytest.raises(BadDatabase):
        Ledger("oracle://somewhere")


# Nothing that an index could make smaller.
LONGEST = "".join(chr(0x10000 + number * 7_919 % 0xF0000) for number in range(220))
NAMES = [
    LONGEST,
    "ünïcödé ☃",
    "🔩" * 63,
    "'; drop table windlass_stock; --",
    '"quoted"',
    "%s :id {}",
    " ",
]
PAIRS = [("a", "A"), ("a", "a "), ("é", "e\u0301"), ("ß", "ss")]


@pytest.mark.parametrize("name", NAMES)
def test_any_unicode_may_be_an_id_or_a_sku(database_url, name):
    ledger = Ledger(database_url)

    ledger.restock(name, {name: 10})
    ledger.deduct(name, {name: 5})
    ledger.give_back(name, name, {name: 2})

    assert ledger.stock(name).available == 7
    assert ledger.deduction(name).id == name
    assert ledger.entries(name)[-1].return_id == name
    assert ledger.audit().ok
    ledger.close()


def test_ids_and_skus_compare_byte_by_byte(database_url):
    ledger = Ledger(database_url)
    for index, pair in enumerate(PAIRS):
        for number, name in enumerate(pair, start=1):
            ledger.restock(f"{index}{name}", {f"{index}{name}": number * 10})
            ledger.deduct(f"{index}{name}", {f"{index}{name}": number})

    for index, pair in enumerate(PAIRS):
        assert [ledger.stock(f"{index}{name}").available for name in pair] == [9, 18]
    assert ledger.audit().ok
    ledger.close()

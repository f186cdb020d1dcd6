"""The ledger behind the console: its lists, its movements, who made them, and its several homes."""

import json
from contextlib import closing
from urllib.parse import quote

import pytest

from tests.fixture.console import SECRET, VIEWER_SECRET, Console, Shop, opened
from windlass import App
from windlass.ledger import Ledger
from windlass.ledger.http import create
from windlass.ledger.store import view as ledger_view

EVIL = "<img src=x onerror=alert(1)>/'\"&ü"


@pytest.fixture
def ledger(web_shop: Shop) -> Ledger:
    """The ledger in the database of the shop."""
    return Ledger(web_shop.app.database, clock=web_shop.app.clock)


def lines(**quantities: int) -> list[dict[str, object]]:
    return [{"sku": sku, "quantity": quantity} for sku, quantity in quantities.items()]


def told(content: dict) -> dict:
    """What an answer has in it, whatever its title."""
    schema = content["application/json"]["schema"]
    return {name: value for name, value in schema.items() if name != "title"}


def all_of(console: Console, path: str, **query: object) -> list[dict]:
    """Every row of a list, page by page."""
    found, after = [], {}
    for _ in range(100):
        page = console.get(path, **query, **after)
        found += page["items"]
        if page["next"] is None:
            return found
        after = {"after": page["next"]}
    raise AssertionError("the list does not end")


def test_stock_is_found_page_by_page_by_prefix_and_where_it_is_sold_out(console, ledger):
    ledger.restock("delivery-1", {"A-1": 5, "A-2": 1, "A-3": 2, "B-1": 7, "a-1": 1})
    ledger.deduct("order-1", {"A-2": 1})

    assert [row["sku"] for row in all_of(console, "stock", limit=2)] == [
        *("A-1", "A-2", "A-3", "B-1", "a-1")
    ]
    assert [row["sku"] for row in all_of(console, "stock", prefix="A-", limit=2)] == [
        *("A-1", "A-2", "A-3")
    ]
    (empty,) = all_of(console, "stock", sold_out=True)
    sums = {"available": 0, "received": 1, "deducted": 1, "returned": 0}
    assert empty == {"sku": "A-2", **sums, "allotted": 0, "unsynced": 0}
    assert console.get("ledger/stocks/A-1")["available"] == 5
    assert console.client.get("/api/ledger/stocks/none").status_code == 404


def test_deductions_come_newest_first_and_by_prefix_in_the_order_of_their_ids(console, ledger):
    ledger.restock("delivery-1", dict.fromkeys("abcdef", 100))
    for number in (3, 1, 2):
        ledger.deduct(f"order-{number}", {"a": number})
    ledger.deduct("other", dict.fromkeys("abcdef", 1))

    listed = all_of(console, "deductions", limit=2)
    found = all_of(console, "deductions", prefix="order-", limit=2)

    assert [row["id"] for row in listed] == ["other", "order-2", "order-1", "order-3"]
    assert [row["id"] for row in found] == ["order-1", "order-2", "order-3"]
    assert listed[0]["lines"] == [
        {"sku": sku, "quantity": 1, "returned": 0} for sku in ("a", "b", "c")
    ]
    assert (listed[0]["has_more_lines"], listed[1]["has_more_lines"]) == (True, False)


def test_deductions_are_found_by_what_became_of_them(console, ledger):
    ledger.restock("delivery-1", {"bolt": 10})
    ledger.deduct("sold", {"bolt": 1})
    ledger.deduct("held", {"bolt": 1}, hold="15m")
    ledger.deduct("voided", {"bolt": 1})
    ledger.void("voided")
    ledger.void("never-came")
    console.post("ledger/deductions", id="refused", lines=lines(bolt=99))

    found = {
        status: [row["id"] for row in all_of(console, "deductions", status=status)]
        for status in ("held", "deducted", "refused", "voided", "lapsed")
    }

    assert found == {
        "held": ["held"],
        "deducted": ["sold"],
        "refused": ["refused"],
        "voided": ["never-came", "voided"],
        "lapsed": [],
    }
    (refused,) = all_of(console, "deductions", status="refused", prefix="ref")
    assert refused["refusal"] == {
        "error": "OutOfStock",
        "sku": "bolt",
        "wanted": 99,
        "available": 8,
    }


def test_a_page_that_has_looked_at_enough_says_where_to_go_on(console, ledger, monkeypatch):
    monkeypatch.setattr(ledger_view, "LOOKED_AT", 4)
    ledger.restock("delivery-1", {"bolt": 100})
    ledger.deduct("held", {"bolt": 1}, hold="15m")
    for number in range(9):
        ledger.deduct(f"order-{number}", {"bolt": 1})

    first = console.get("deductions", status="held")

    assert (first["items"], first["looked_at"]) == ([], 4)
    assert [row["id"] for row in all_of(console, "deductions", status="held")] == ["held"]


def test_rare_entries_are_found_among_others_with_what_there_was_then(console, ledger, monkeypatch):
    monkeypatch.setattr(ledger_view, "LOOKED_AT", 8)
    ledger.restock("delivery-1", {"bolt": 100, "nut": 100})
    for number in range(12):
        ledger.deduct(f"order-{number}", {"bolt": 1, "nut": 1})
        if number % 5 == 0:
            ledger.give_back(f"order-{number}", "return-1", {"bolt": 1})

    of_one = all_of(console, "entries", sku="bolt", movement="return", limit=1)
    of_all = all_of(console, "entries", movement="return", limit=2)

    assert [row["balance"] for row in of_one] == [92, 96, 100]
    assert [row["id"] for row in of_all] == [row["id"] for row in of_one]


def test_returns_are_listed_of_all_deductions_and_of_one(console, ledger):
    ledger.restock("delivery-1", {"bolt": 100})
    for order in ("order-1", "order-2"):
        ledger.deduct(order, {"bolt": 5})
        ledger.give_back(order, "return-1", {"bolt": 2})
    console.post("ledger/deductions/order-1/returns", id="too-much", lines=lines(bolt=4))
    ledger.void("order-2")

    listed = all_of(console, "returns", limit=2)
    of_one = all_of(console, "returns", deduction="order-1", limit=1)

    assert [(row["deduction"], row["movement"]) for row in listed] == [
        ("order-2", "void"),
        ("order-1", "return"),
        ("order-2", "return"),
        ("order-1", "return"),
    ]
    assert [row["id"] for row in of_one] == ["too-much", "return-1"]
    assert of_one[0]["refusal"]["error"] == "OverReturn"
    assert (of_one[0]["lines"], of_one[1]["lines"]) == ([], lines(bolt=2))


def test_entries_of_a_sku_tell_how_much_there_was_after_each_on_every_page(console, ledger):
    ledger.restock("delivery-1", {"bolt": 10, "nut": 3})
    ledger.deduct("order-1", {"bolt": 4})
    ledger.give_back("order-1", "return-1", {"bolt": 1})
    ledger.adjust("count-1", {"bolt": -2}, reason="two were lost")

    listed = all_of(console, "entries", sku="bolt", limit=1)
    everything = all_of(console, "entries")

    assert [(row["movement"], row["quantity"], row["balance"]) for row in listed] == [
        ("adjust", -2, 5),
        ("return", 1, 7),
        ("deduct", -4, 6),
        ("restock", 10, 10),
    ]
    assert len(everything) == 5
    assert {row["balance"] for row in everything} == {None}
    assert [row["reference"] for row in all_of(console, "entries", movement="deduct")] == [
        "order-1"
    ]
    assert [
        row["balance"] for row in all_of(console, "entries", sku="bolt", movement="deduct")
    ] == [6]


@pytest.mark.parametrize("list_", ["deductions", "returns", "entries"])
@pytest.mark.parametrize("cursor", ["x", "[]", "[1]x", '["a","b"]', "null", "[1,2,3,4]"])
def test_a_cursor_that_no_page_gave_is_refused(browse, list_, cursor):
    answer = browse().client.get(f"/api/{list_}", params={"after": cursor})

    assert (answer.status_code, answer.json()["title"]) == (422, "BadInput")


def test_a_movement_has_its_effect_once_and_is_told_in_the_log(console, ledger):
    body = {"id": "delivery-1", "lines": lines(bolt=10)}

    first = console.post("ledger/restocks", **body)
    again = console.post("ledger/restocks", **body)
    other = console.post("ledger/restocks", id="delivery-1", lines=lines(bolt=11))

    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 409)
    assert first.json() == again.json()
    assert ledger.stock("bolt").available == 10
    assert other.json()["difference"] == "sku 'bolt' is 11, it was 10"
    deeds = console.get("audit", about="delivery-1")["items"]
    assert [(deed["action"], deed["ok"]) for deed in deeds] == [
        ("ledger.restock", False),
        ("ledger.restock", True),
        ("ledger.restock", True),
    ]
    assert [deed["outcome"] for deed in deeds[1:]] == [
        "10 came in; it was done before",
        "10 came in",
    ]


def test_operators_adjust_give_back_void_and_confirm(console, ledger):
    ledger.restock("delivery-1", {"bolt": 10})
    ledger.deduct("a/b", {"bolt": 5})
    ledger.deduct("held", {"bolt": 2}, hold="15m")

    adjusted = console.post("ledger/adjustments", id="count", lines=lines(bolt=-1), reason="lost")
    returned = console.post("ledger/deductions/a%2Fb/returns", id="r-1", lines=lines(bolt=2))
    voided = console.post("ledger/deductions/a%2Fb/void")
    confirmed = console.post("ledger/deductions/held/confirm")
    late = console.post("ledger/deductions/a%2Fb/confirm")

    answers = (adjusted, returned, voided, confirmed)
    assert [answer.status_code for answer in answers] == [201] * 4
    assert (late.status_code, late.json()["title"]) == (422, "NotHeld")
    assert voided.json()["lines"] == lines(bolt=3)
    assert ledger.stock("bolt").available == 7
    shown = console.get("ledger/deductions/a%2Fb")
    assert (shown["status"], shown["lines"][0]["returned"]) == ("voided", 5)
    assert len(console.get("ledger/deductions/a%2Fb/returns")) == 2
    deeds = {deed["action"]: deed for deed in console.get("audit")["items"] if deed["ok"]}
    assert deeds.keys() == {*("ledger.adjust", "ledger.give_back", "ledger.void", "ledger.confirm")}
    assert '"reason":"lost"' in deeds["ledger.adjust"]["detail"]


def test_an_exchange_is_made_listed_and_logged(console, ledger):
    ledger.restock("delivery-1", {"bolt": 10, "nut": 2})
    ledger.deduct("a/b", {"bolt": 5})
    path, body = "ledger/deductions/a%2Fb/exchanges", {"back": lines(bolt=2)}

    made = console.post(path, id="x-1", **body, out=lines(nut=1))
    again = console.post(path, id="x-1", **body, out=lines(nut=1))
    short = console.post(path, id="x-2", **body, out=lines(nut=2))

    assert (made.status_code, again.status_code, short.status_code) == (201, 200, 422)
    assert (made.json()["lines"], made.json()["out"]) == (lines(bolt=2), lines(nut=1))
    refused, listed = console.get("returns")["items"]
    assert (refused["movement"], refused["out"]) == ("exchange", [])
    assert refused["refusal"]["error"] == "OutOfStock"
    assert (listed["movement"], listed["lines"], listed["out"], listed["has_more_out"]) == (
        *("exchange", lines(bolt=2), lines(nut=1)),
        False,
    )
    entries = console.get("entries", movement="exchange")["items"]
    assert {(entry["sku"], entry["quantity"]) for entry in entries} == {("bolt", 2), ("nut", -1)}
    deeds = [deed for deed in console.get("audit")["items"] if deed["ok"]]
    assert {deed["action"] for deed in deeds} == {"ledger.exchange"}
    assert deeds[-1]["outcome"] == "2 of a/b came back, 1 went out for it"


def test_refusals_are_told_with_their_facts(console, ledger):
    ledger.restock("delivery-1", {"bolt": 1})

    short = console.post("ledger/deductions", id="order-1", lines=lines(bolt=2))
    unknown = console.post("ledger/deductions/none/returns", id="r-1", lines=lines(bolt=1))
    zero = console.post("ledger/adjustments", id="count", lines=lines(bolt=0))

    assert (short.status_code, short.json()["title"]) == (422, "OutOfStock")
    assert (short.json()["wanted"], short.json()["available"]) == (2, 1)
    assert (unknown.status_code, unknown.json()["title"]) == (404, "UnknownDeduction")
    assert (zero.status_code, zero.json()["title"]) == (422, "InvalidQuantity")


def test_the_audit_tells_what_is_wrong(console, ledger, web_shop):
    ledger.restock("delivery-1", {"bolt": 10})
    well = console.get("ledger/audit")
    spoil = "update windlass_stock set available = 11, received = 11"

    web_shop.app.database.write(lambda connection: connection.exec_driver_sql(spoil))

    assert well == {"ok": True, "problems": []}
    found = console.get("ledger/audit")
    assert not found["ok"]
    assert "its entries add up to 10" in found["problems"][0]


def test_two_audits_do_not_run_at_once(browse, sqlite_web_shop):
    console = browse()
    ledgers = console.client.app.state.console.ledgers

    with ledgers._auditing:
        answer = console.client.get("/api/ledger/audit")

    assert (answer.status_code, answer.json()["title"]) == (409, "Refused")
    assert console.get("ledger/audit")["ok"]


def test_whoever_only_looks_moves_no_stock(browse):
    viewer = browse(secret=SECRET, viewer_secret=VIEWER_SECRET)
    viewer.log_in(VIEWER_SECRET)
    nobody = browse(secret=SECRET)
    frozen = browse(read_only=True)
    hasty = browse()
    hasty.headers.clear()

    answers = {
        name: console.post("ledger/restocks", id="delivery-1", lines=lines(bolt=1))
        for name, console in {
            "viewer": viewer,
            "nobody": nobody,
            "frozen": frozen,
            "hasty": hasty,
        }.items()
    }

    assert {name: answer.json()["title"] for name, answer in answers.items()} == {
        "viewer": "ReadOnly",
        "nobody": "LogIn",
        "frozen": "ReadOnly",
        "hasty": "NoToken",
    }
    assert viewer.get("stock")["items"] == []


def test_the_bearer_of_the_secret_moves_stock(browse):
    console = browse(secret=SECRET)
    console.headers["authorization"] = f"Bearer {SECRET}"

    assert console.post("ledger/restocks", id="1", lines=lines(bolt=1)).status_code == 201


def test_what_users_gave_travels_as_text(console, ledger):
    ledger.restock(EVIL, {EVIL: 3})
    console.post("ledger/deductions", id=EVIL, lines=[{"sku": EVIL, "quantity": 1}])
    path = quote(EVIL, safe="")
    console.post(f"ledger/deductions/{path}/returns", id=EVIL, lines=[{"sku": EVIL, "quantity": 1}])
    body = {"id": EVIL, "lines": [{"sku": EVIL, "quantity": 1}], "reason": EVIL}
    console.post("ledger/adjustments", **body)

    for face in ("stock", "deductions", "returns", "entries", "audit", f"ledger/stocks/{path}"):
        answer = console.client.get(f"/api/{face}")
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert json.dumps(EVIL, ensure_ascii=False)[1:-1] in answer.text
    (listed,) = console.get("deductions", prefix=EVIL[:4])["items"]
    assert listed["id"] == listed["lines"][0]["sku"] == EVIL


def test_every_call_of_the_ledgers_own_api_is_there_and_the_same(browse, sqlite_url):
    with closing(Ledger(sqlite_url)) as ledger:
        own = create(ledger, secret=SECRET).openapi()["paths"]
    here = browse().client.get("/api/openapi.json").json()["paths"]

    for path, methods in own.items():
        for method, operation in methods.items():
            ours = here[f"/api/ledger{path}"][method]
            assert ours.get("requestBody") == operation.get("requestBody"), (method, path)
            for status in operation["responses"].keys() & {"200", "201"}:
                answer, same = (each["responses"][status]["content"] for each in (operation, ours))
                assert told(answer) == told(same), (method, path, status)
            # What may go wrong everywhere is said once for the whole of the console's API.
            own_answers = operation["responses"].keys() - {"413", "500"}
            assert own_answers <= ours["responses"].keys(), (method, path)


def test_each_database_of_an_app_has_a_ledger_of_its_own(sqlite_url, tmp_path):
    other = f"sqlite:///{tmp_path / 'other.db'}"
    with closing(App(sqlite_url, other)) as app:
        console = opened(app)

        places = console.get("ledgers")
        console.client.post(
            "/api/ledger/restocks?shard=2",
            json={"id": "delivery-1", "lines": lines(bolt=1)},
            headers=console.headers,
        )

        assert [place["shard"] for place in places] == ["1", "2"]
        assert console.get("stock")["items"] == []
        assert len(console.get("stock", shard="2")["items"]) == 1
        assert len(console.get("stock", shard=places[1]["name"])["items"]) == 1
        assert console.client.get("/api/stock?shard=3").status_code == 422


def test_a_movement_is_a_change(console, ledger):
    def mark() -> str:
        return console.get("changes")["topics"]["ledger"]

    marks = [mark()]
    ledger.restock("delivery-1", {"bolt": 10})
    marks.append(mark())
    ledger.deduct("order-1", {"bolt": 1})
    marks.append(mark())
    ledger.give_back("order-1", "return-1", {"bolt": 1})
    marks.append(mark())

    assert len(set(marks)) == 4
    assert mark() == marks[-1]

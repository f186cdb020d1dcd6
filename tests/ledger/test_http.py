"""The ledger over HTTP: the same answers, with the right status, and never a 500."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from tests.fixture.console import SECRET
from windlass.errors import BadInput, WindlassError
from windlass.ledger import DeductionStatus, Ledger, Movement, Stock
from windlass.ledger import http as ledger_http
from windlass.ledger.http import create

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
PROBLEM = "application/problem+json"
BEARER = {"Authorization": f"Bearer {SECRET}"}
# What HTTP makes of an answer is the same for all databases.
pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def web(ledger: Ledger) -> Iterator[TestClient]:
    ledger.restock("delivery-1", {"bolt": 10, "nut": 10})
    with TestClient(create(ledger, secret=SECRET), headers=BEARER) as client:
        yield client


def body(id_: str, **lines: int) -> dict:
    return {"id": id_, "lines": [{"sku": sku, "quantity": n} for sku, n in lines.items()]}


# The gate


@pytest.mark.parametrize("options", [{}, {"secret": ""}, {"secret": "x" * 15}], ids=str)
def test_no_ledger_is_served_without_a_credential(ledger, options):
    with pytest.raises(BadInput, match="secret"):
        create(ledger, **options)


@pytest.fixture(params=["alone", "mounted"])
def locked(request, ledger: Ledger) -> Iterator[TestClient]:
    """A client of the ledger that shows nothing by itself."""
    ledger.restock("delivery-1", {"bolt": 10})
    api = create(ledger, secret=SECRET)
    outer = Starlette(routes=[Mount("/shop", api)]) if request.param == "mounted" else api
    base = "http://shop.example/shop" if request.param == "mounted" else "http://shop.example"
    with TestClient(outer, base_url=base) as client:
        yield client


@pytest.mark.parametrize("given", ["", "Bearer wrong", f"Basic {SECRET}", SECRET])
def test_only_the_secret_as_a_bearer_token_gets_in(locked, ledger, given):
    headers = {"Authorization": given} if given else {}
    document = locked.get("/openapi.json").json()

    answers = {
        (method, path): locked.request(method, path.replace("{", "_"), headers=headers)
        for path, methods in document["paths"].items()
        for method in methods
    }

    assert {answer.status_code for answer in answers.values()} <= {401, 429}
    assert {answer.headers["content-type"] for answer in answers.values()} == {PROBLEM}
    assert locked.get("/stocks", headers=BEARER).status_code == 200
    assert locked.get("/nowhere", headers=headers).status_code in (401, 429)
    assert ledger.stock("bolt").available == 10


@pytest.mark.parametrize(
    "foreign",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://shop.example"},
    ],
    ids=str,
)
def test_a_foreign_page_moves_nothing_even_with_the_secret(locked, ledger, foreign):
    answer = locked.post("/deductions", json=body("order-7", bolt=1), headers=BEARER | foreign)

    assert (answer.status_code, answer.json()["title"]) == (403, "ForeignOrigin")
    assert ledger.stock("bolt").available == 10


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_body_must_say_that_it_is_json(locked, ledger, kind):
    asked = json.dumps(body("order-7", bolt=1))
    headers = BEARER | {"Content-Type": kind}

    answer = locked.post("/deductions", content=asked, headers=headers)

    assert (answer.status_code, answer.headers["content-type"]) == (415, PROBLEM)
    assert ledger.stock("bolt").available == 10


def test_wrong_secrets_never_shut_out_the_right_one(locked):
    wrong = [
        locked.get("/stocks", headers={"Authorization": f"Bearer {number}"}) for number in range(70)
    ]

    assert wrong[0].status_code == 401
    assert (wrong[-1].status_code, wrong[-1].headers["retry-after"]) == (429, "300")
    assert locked.get("/stocks", headers=BEARER).status_code == 200
    assert SECRET not in "".join(f"{answer.text}{answer.headers}" for answer in wrong)


# What it answers


def test_a_first_answer_is_201_and_the_same_again_200(web):
    first = web.post("/deductions", json=body("order-7", bolt=4))
    again = web.post("/deductions", json=body("order-7", bolt=4))

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.json()["lines"] == [{"sku": "bolt", "quantity": 4, "returned": 0}]
    assert first.json()["status"] == "deducted"


def test_the_whole_story_is_told_over_http(web):
    assert web.post("/restocks", json=body("delivery-2", screw=5)).status_code == 201
    held = web.post("/deductions", json=body("order-7", bolt=4, screw=1) | {"hold": "15m"})
    confirmed = web.post("/deductions/order-7/confirm")
    back = web.post("/deductions/order-7/returns", json=body("return-1", bolt=1))
    voided = web.post("/deductions/order-7/void")
    adjusted = web.post("/adjustments", json=body("count-1", nut=-2) | {"reason": "counted"})

    assert (held.status_code, held.json()["status"]) == (201, "held")
    assert confirmed.status_code == 201
    assert web.post("/deductions/order-7/confirm").status_code == 200
    assert (back.status_code, back.json()["lines"]) == (201, [{"sku": "bolt", "quantity": 1}])
    assert [line["quantity"] for line in voided.json()["lines"]] == [3, 1]
    assert web.post("/deductions/order-7/void").status_code == 200
    assert adjusted.status_code == 201
    assert web.get("/deductions/order-7").json()["status"] == "voided"
    assert [made["id"] for made in web.get("/deductions/order-7/returns").json()] == [
        "return-1",
        "windlass:void",
    ]
    assert web.get("/stocks/nut").json()["available"] == 8
    assert [stock["sku"] for stock in web.get("/stocks").json()] == ["bolt", "nut", "screw"]
    assert [entry["quantity"] for entry in web.get("/stocks/screw/entries").json()] == [5, -1, 1]
    assert web.get("/audit").json() == {"ok": True, "problems": []}


def test_what_is_refused_is_422_with_its_facts(web):
    short = web.post("/deductions", json=body("order-7", bolt=11))
    web.post("/deductions", json=body("order-8", bolt=1))
    over = web.post("/deductions/order-8/returns", json=body("return-1", bolt=2))

    assert (short.status_code, short.headers["content-type"]) == (422, PROBLEM)
    assert short.json() | {"detail": ""} == {
        "type": "about:blank",
        "title": "OutOfStock",
        "status": 422,
        "detail": "",
        "sku": "bolt",
        "wanted": 11,
        "available": 10,
    }
    assert over.status_code == 422
    assert (over.json()["wanted"], over.json()["returnable"]) == (2, 1)


def test_what_is_over_cannot_be_confirmed(web):
    web.post("/deductions", json=body("order-7", bolt=1) | {"hold": "15m"})
    web.post("/deductions/order-7/void")

    answer = web.post("/deductions/order-7/confirm")

    assert (answer.status_code, answer.headers["content-type"]) == (422, PROBLEM)
    assert (answer.json()["status"], answer.json()["id"]) == (422, "order-7")
    assert answer.json()["deduction_status"] == "voided"
    assert "is voided and cannot be confirmed" in answer.json()["detail"]


def test_a_conflict_is_409_and_says_what_differs(web):
    web.post("/deductions", json=body("order-7", bolt=4))

    conflict = web.post("/deductions", json=body("order-7", bolt=5))

    assert (conflict.status_code, conflict.headers["content-type"]) == (409, PROBLEM)
    assert conflict.json()["difference"] == "sku 'bolt' is 5, it was 4"


def test_a_deduction_without_a_hold_is_confirmed_once_and_then_again(web):
    web.post("/deductions", json=body("order-7", bolt=4))

    first = web.post("/deductions/order-7/confirm")
    again = web.post("/deductions/order-7/confirm")

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()


def test_what_is_known_but_empty_is_an_empty_list(web):
    web.post("/deductions", json=body("order-7", bolt=4))

    assert web.get("/deductions/order-7/returns").json() == []
    assert web.get("/stocks/bolt/entries?after=1000").json() == []


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ('{"id": "a", "id": "b", "lines": [{"sku": "bolt", "quantity": 1}]}', "id"),
        ('{"id": "a", "lines": [{"sku": "bolt", "quantity": 1, "quantity": 2}]}', "quantity"),
        (r'{"\ud800": 1, "\ud800": 1}', r"\ud800"),
    ],
)
def test_a_body_that_says_the_same_thing_twice_is_refused(web, sent, name):
    answer = web.post("/restocks", content=sent, headers={"content-type": "application/json"})

    assert (answer.status_code, answer.headers["content-type"]) == (422, PROBLEM)
    assert answer.json()["errors"] == [
        {"where": f"body.{name}", "what": "is given twice in one object"}
    ]
    assert web.get("/stocks/bolt").json()["available"] == 10


@pytest.mark.parametrize("tells_length", [True, False])
def test_a_body_that_is_too_large_is_413(web, monkeypatch, tells_length):
    monkeypatch.setattr(ledger_http, "MOST_BYTES", 1_000)
    sent = json.dumps(body("x" * 1_000, bolt=1)).encode()

    answer = web.post(
        "/restocks",
        content=sent if tells_length else iter([sent[:500], sent[500:]]),
        headers={"content-type": "application/json"},
    )

    assert (answer.status_code, answer.headers["content-type"]) == (413, PROBLEM)


def test_the_largest_request_that_is_allowed_is_not_too_large(web):
    skus = ["\N{NUT AND BOLT}" * 214 + f"{number:06}" for number in range(10_000)]
    asked = {"id": "x" * 255, "lines": [{"sku": sku, "quantity": 10**12} for sku in skus]}

    assert len(json.dumps(asked)) < ledger_http.MOST_BYTES


@pytest.mark.parametrize("problem", [RuntimeError("secret"), WindlassError("secret")])
def test_an_error_of_our_own_is_500_and_tells_nothing(ledger, problem):
    async def fail(_sku: str) -> Stock:
        raise problem

    ledger.astock = fail
    api = create(ledger, secret=SECRET)
    client = TestClient(api, headers=BEARER, raise_server_exceptions=False)

    answer = client.get("/stocks/bolt")

    assert (answer.status_code, answer.headers["content-type"]) == (500, PROBLEM)
    assert "secret" not in answer.text


def test_the_audit_can_be_left_out(ledger):
    client = TestClient(create(ledger, secret=SECRET, audit=False), headers=BEARER)

    assert client.get("/audit").status_code == 404
    assert "/audit" not in client.get("/openapi.json").json()["paths"]


@pytest.mark.parametrize(
    ("method", "path", "asked"),
    [
        ("GET", "/deductions/none", None),
        ("POST", "/deductions/none/returns", body("return-1", bolt=1)),
        ("POST", "/deductions/none/confirm", None),
        ("POST", "/deductions", body("order-9", none=1)),
        ("GET", "/deductions/none/returns", None),
        ("GET", "/stocks/none", None),
        ("GET", "/stocks/none/entries", None),
        ("GET", "/nowhere", None),
    ],
)
def test_what_is_unknown_is_404(web, method, path, asked):
    answer = web.request(method, path, json=asked)

    assert (answer.status_code, answer.headers["content-type"]) == (404, PROBLEM)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        body("order-7"),
        body("order-7", bolt=0),
        body("order-7", bolt=-1),
        body("order-7", bolt=1.5),
        body("order-7", bolt=10**12 + 1),
        body("", bolt=1),
        body("x" * 256, bolt=1),
        body("nul\x00", bolt=1),
        body("windlass:mine", bolt=1),
        body("order-7", bolt=1) | {"hold": "soon"},
        body("order-7", bolt=1) | {"other": 1},
    ],
)
def test_what_is_malformed_is_422_and_uses_no_id(web, asked):
    answer = web.post("/deductions", json=asked)

    assert (answer.status_code, answer.headers["content-type"]) == (422, PROBLEM)
    assert web.get("/deductions/order-7").status_code == 404


@pytest.mark.parametrize("id_", ["a/b", "x/returns", "%2F", "ü ☃ 🔩", "?q=1#f", "'; drop--", "."])
def test_any_id_can_be_a_part_of_the_path(web, id_):
    web.post("/deductions", json=body(id_, bolt=1))
    place = "/deductions/" + quote(id_, safe="").replace(".", "%2E")

    assert web.get(place).json()["id"] == id_
    assert web.post(f"{place}/returns", json=body("return-1", bolt=1)).status_code == 201
    assert web.get(f"{place}/returns").json()[0]["deduction"] == id_


def test_it_can_be_mounted_in_another_application(ledger):
    ledger.restock("delivery-1", {"bolt": 10})
    outer = Starlette(routes=[Mount("/ledger", create(ledger, secret=SECRET))])
    with TestClient(outer, headers=BEARER) as client:
        assert client.post("/ledger/deductions", json=body("a/b", bolt=1)).status_code == 201
        assert client.get("/ledger/deductions/a%2Fb").json()["id"] == "a/b"
        assert "/deductions" in client.get("/ledger/openapi.json").json()["paths"]


def test_it_can_be_mounted_below_a_path_that_needs_encoding(ledger):
    ledger.restock("delivery-1", {"a/b": 10})
    outer = Starlette(routes=[Mount("/ü /ledger", create(ledger, secret=SECRET))])
    with TestClient(outer, headers=BEARER) as client:
        for root in ("/%C3%BC%20/ledger", "/%c3%bc%20/%6cedger"):
            assert client.get(f"{root}/stocks/a%2Fb").json()["sku"] == "a/b"
            assert client.get(f"{root}/openapi.json").status_code == 200


@pytest.mark.slow
def test_a_database_that_does_not_answer_is_503():
    ledger = Ledger("postgresql://nobody@127.0.0.1:1/none")
    api = create(ledger, secret=SECRET)
    with TestClient(api, headers=BEARER, raise_server_exceptions=False) as client:
        answer = client.get("/stocks")

    assert (answer.status_code, answer.headers["content-type"]) == (503, PROBLEM)
    assert "nobody" not in answer.text


def test_every_path_says_what_it_may_answer(web):
    paths = web.get("/openapi.json").json()["paths"]

    assert set(paths) == {
        "/restocks",
        "/adjustments",
        "/deductions",
        "/deductions/{id}",
        "/deductions/{id}/returns",
        "/deductions/{id}/exchanges",
        "/deductions/{id}/void",
        "/deductions/{id}/confirm",
        "/stocks",
        "/stocks/{sku}",
        "/stocks/{sku}/entries",
        "/audit",
    }
    for path, methods in paths.items():
        for method, operation in methods.items():
            answers = operation["responses"]
            assert {"422", "503"} <= answers.keys(), (method, path)
            assert {"200", "201"} <= answers.keys() or method == "get"
            for status, answer in answers.items():
                kind = "application/json" if status < "300" else PROBLEM
                assert [*answer["content"]] == [kind], (method, path, status)


def test_the_document_tells_names_limits_and_facts(web):
    document = web.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    (of,) = document["paths"]["/deductions/{id}"]["get"]["parameters"]
    refused = document["paths"]["/deductions"]["post"]["responses"]["422"]["content"][PROBLEM]

    assert (of["schema"]["minLength"], of["schema"]["maxLength"]) == (1, 255)
    assert schemas["Deduction"]["properties"]["status"]["enum"] == [
        str(status) for status in DeductionStatus
    ]
    assert schemas["Movement"]["enum"] == [str(movement) for movement in Movement]
    assert {"$ref": "#/components/schemas/OutOfStockProblem"} in refused["schema"]["anyOf"]
    assert schemas["OutOfStockProblem"]["required"][-3:] == ["sku", "wanted", "available"]
    assert schemas["MalformedProblem"]["properties"]["errors"]["type"] == "array"
    for used in re.findall(r"#/components/schemas/(\w+)", json.dumps(document)):
        assert used in schemas


def test_an_id_in_the_path_is_measured_as_it_was_meant(web):
    assert web.get("/deductions/" + quote("ü" * 255)).status_code == 404
    assert web.get("/deductions/" + quote("ü" * 256)).status_code == 422


def try_all(ledger: Ledger, *, examples: int) -> int:
    """Ask for much that the schema allows, and for much that it forbids; how often that was."""
    ledger.restock("delivery-1", {"0": 10, "a": 10})
    ledger.deduct("0", {"0": 5})
    schema = schemathesis.openapi.from_asgi("/openapi.json", create(ledger, secret=SECRET))
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in GenerationMode:

            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def ask(case: schemathesis.Case) -> None:
                nonlocal tried
                tried += 1
                case.call_and_validate(checks=CHECKS, headers=BEARER)

            # Some take nothing that could be wrong.
            with suppress(*([Unsatisfiable] if mode is GenerationMode.NEGATIVE else [])):
                ask()
    return tried


def test_nothing_that_the_schema_allows_or_forbids_makes_a_500(sqlite_url):
    ledger = Ledger(sqlite_url)

    assert try_all(ledger, examples=3) > 40
    assert ledger.audit().ok
    ledger.close()


@pytest.mark.slow
def test_nothing_at_all_makes_a_500(ledger):
    assert try_all(ledger, examples=60) > 1_000
    assert ledger.audit().ok

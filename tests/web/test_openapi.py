"""The OpenAPI document is whole, and nothing that it allows or forbids makes a 500."""

import json
from collections.abc import Collection
from contextlib import suppress

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

from tests.fixture.console import SECRET, Shop
from tests.web.test_right import FOR_PRODUCERS_TOO
from windlass import web
from windlass.ledger import Ledger
from windlass.web import openapi

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
PROBLEM = "application/problem+json"
# One never ends, the other locks out those who guess.
LEFT_OUT = {"/api/events", "/api/session"}


def test_every_path_says_what_it_may_answer(browse):
    document = browse().client.get("/api/openapi.json").json()

    assert len(document["paths"]) > 40
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            answers = operation["responses"]
            assert {"401", "403", "422", "503"} <= answers.keys(), (method, path)
            assert operation["summary"], (method, path)
            assert operation["description"], (method, path)
            assert len(operation["tags"]) == 1, (method, path)
            for status, answer in answers.items():
                is_event = path == "/api/events" and status == "200"
                kind = "text/event-stream" if is_event else "application/json"
                expected = kind if status < "300" else PROBLEM
                assert expected in answer["content"], (method, path, status)
                assert answer["content"][expected]["schema"], (method, path, status)


def test_what_programs_send_has_examples_that_are_accepted(browse):
    document = browse().client.get("/api/openapi.json").json()
    shown = {
        path: json_of(document, operation["post"])["examples"]
        for path, operation in document["paths"].items()
        if "post" in operation and ("post", path) in FOR_PRODUCERS_TOO and "/ledger/" not in path
    }

    assert len(shown) == 9
    for path, examples in shown.items():
        for example in examples:
            answer = browse().client.post(path.replace("{name}", "load"), json=example)
            # The shop has other kinds: it is not malformed.
            assert "Malformed" not in answer.text, (path, answer.text)


def json_of(document, operation):
    """The schema of the body that an operation takes."""
    reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    return document["components"]["schemas"][reference.rpartition("/")[2]]


def test_the_document_is_printed_without_a_database(browse):
    document = browse().client.get("/api/openapi.json").json()

    assert json.loads(openapi.document()) == document


def try_all(web_shop: Shop, *, examples: int, only: Collection[str] = ()) -> int:
    """Ask for much that the schema allows, and for much that it forbids; how often that was."""
    web_shop.send_mail.enqueue("nobody")
    web_shop.stock.add(["0", "1"])
    web_shop.app.control.start("0")
    web_shop.app.drain()
    ledger = Ledger(web_shop.app.database, clock=web_shop.app.clock)
    ledger.restock("0", {"0": 10, "a": 10})
    ledger.deduct("0", {"0": 5}, hold="1h")
    site = web.create(web_shop.app, secret=SECRET)
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", site)
    bearer = {"Authorization": f"Bearer {SECRET}"}
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path in LEFT_OUT or (only and operation.path not in only):
            continue
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
                case.call_and_validate(checks=CHECKS, headers=bearer)

            # Some take nothing that could be wrong.
            with suppress(*([Unsatisfiable] if mode is GenerationMode.NEGATIVE else [])):
                ask()
    return tried


def test_nothing_that_the_schema_allows_or_forbids_makes_a_500(sqlite_web_shop):
    some = {"/api/tasks", "/api/tasks/cancel", "/api/audit", "/api/rolling/{kind}/items"}
    some |= {"/api/flows", "/api/templates/{name}/check", "/api/tasks/many", "/api/notify"}
    some |= {"/api/control/{name}/start", "/api/control/{name}/step"}

    assert try_all(sqlite_web_shop, examples=3, only=some) > 25


def test_nothing_that_is_asked_of_the_ledger_makes_a_500(sqlite_web_shop):
    lists = {"/api/stock", "/api/deductions", "/api/returns", "/api/entries"}
    own = {"restocks", "adjustments", "deductions/{id}/returns", "deductions/{id}/void"}

    some = lists | {f"/api/ledger/{path}" for path in own}
    assert try_all(sqlite_web_shop, examples=3, only=some) > 30
    assert Ledger(sqlite_web_shop.app.database).audit().ok


@pytest.mark.slow
def test_nothing_at_all_makes_a_500(web_shop):
    assert try_all(web_shop, examples=10) > 500

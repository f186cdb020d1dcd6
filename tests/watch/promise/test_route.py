"""Promises over HTTP."""

import pytest


@pytest.mark.mostly("sqlite")
def test_promises_are_listed_and_found_by_kind(console, web_shop):
    found = console.get("promises")

    kinds = {each["kind"]: each for each in found["items"]}
    rolling = [name for name, kind in web_shop.app.registry.kinds.items() if kind.period]
    assert rolling
    assert kinds.keys() >= set(rolling)
    assert found["missing"] == []
    assert kinds[rolling[0]]["state"] == "unknown"
    assert console.get(f"promises/{rolling[0]}") == kinds[rolling[0]]


@pytest.mark.mostly("sqlite")
def test_a_kind_without_a_promise_is_404(console, web_shop):
    answer = console.client.get("/api/promises/nothing_like_it")

    assert answer.status_code == 404

"""`visit_soon` of rolling kinds: a worker visits the item before all others; nobody waits."""

import pytest

from tests.rolling.stock import declare
from windlass import BadDuration, ItemNotFound, Overloaded, VisitSoon


@pytest.fixture
def seen():
    return []


@pytest.fixture
def stock(app, seen):
    return declare(app, seen)


@pytest.mark.everywhere
def test_it_returns_at_once_and_a_worker_visits_the_item(app, clock, stock, seen):
    stock.add(["bolt", "nut"])
    app.drain()
    clock.forward("1h")
    seen.clear()

    asked = stock.visit_soon("nut", fresh="10m")
    before = list(seen)
    app.drain()
    again = stock.visit_soon("nut", fresh="10m")

    assert (asked, again) == (VisitSoon.ASKED, VisitSoon.FRESH)
    assert before == []
    assert seen == ["nut"]


@pytest.mark.everywhere
def test_a_thousand_calls_make_one_visit(app, clock, stock, seen):
    stock.add(["bolt"])
    app.drain()
    clock.forward("1h")
    seen.clear()

    asked = {stock.visit_soon("bolt", fresh="10m") for _ in range(100)}
    app.drain()
    asked |= {stock.visit_soon("bolt", fresh="10m") for _ in range(900)}
    app.drain()

    assert asked == {VisitSoon.ASKED, VisitSoon.PENDING, VisitSoon.FRESH}
    assert seen == ["bolt"]


async def test_it_may_be_awaited(app, clock, stock, seen):
    await stock.aadd(["bolt"])
    await app.adrain()

    assert await stock.avisit_soon("bolt", fresh="10m") is VisitSoon.FRESH


def test_what_is_not_an_item_and_bad_durations_are_refused(stock):
    with pytest.raises(ItemNotFound):
        stock.visit_soon("bolt")
    with pytest.raises(BadDuration, match="fresh"):
        stock.visit_soon("bolt", fresh="soon")


def test_a_paused_kind_visits_when_it_is_resumed(app, clock, stock, seen):
    stock.add(["bolt"])
    app.drain()
    seen.clear()
    app.pause("stock")

    stock.visit_soon("bolt")
    app.drain()
    held = list(seen)
    app.resume("stock")
    app.drain()

    assert held == []
    assert seen == ["bolt"]


def test_an_overloaded_visit_of_a_caller_is_over_when_it_comes_back(app, clock):
    calls = []

    @app.rolling(every="1d")
    def price(code: str) -> None:
        calls.append(code)
        if len(calls) == 1:
            raise Overloaded(retry_after="5s")

    price.add(["bolt"], now=True)
    app.drain()
    clock.forward("5s")
    app.drain()

    assert calls == ["bolt", "bolt"]

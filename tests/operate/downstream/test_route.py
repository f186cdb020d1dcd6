"""The routes of downstreams."""

from contextlib import closing

import pytest

from tests.fixture.console import opened
from windlass import App
from windlass.clock import ManualClock

pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def app(database_url, clock):
    with closing(App(database_url, clock=clock)) as app:
        inventory = app.downstream("inventory", rate="700/s", breaker="8 in a row, 30s")

        @app.task(downstream=inventory, retries=0)
        def look(code: str) -> None:
            if code == "broken":
                raise ConnectionError("no inventory")

        app.look = look
        yield app


@pytest.fixture
def console(app):
    made = opened(app)
    with made.client:
        yield made


def test_a_downstream_shows_what_each_kind_takes(app, console, clock):
    app.look.enqueue_many([{"code": "bolt"}] * 9 + [{"code": "broken"}])
    app.drain()
    clock.advance(60_000_000)

    found = console.get("downstreams/inventory")

    (take,) = found["kinds"]
    assert (take["starts_per_minute"], take["errors_per_minute"]) == (2.0, 0.2)
    assert console.get("downstreams") == [found]


def test_a_downstream_is_paused_as_a_kind_is(console):
    console.do("switches/inventory/pause", reason="stocktaking")

    assert "stocktaking" in console.get("downstreams/inventory")["held_back"]


def test_limits_are_set_as_those_of_a_kind(console):
    console.do("switches/inventory/set", rate="300/s", concurrency=5)

    holds = console.get("downstreams/inventory")["holds"]
    assert holds == {"rate": "300/s", "concurrency": 5, "window": None}


def test_an_unknown_downstream_is_not_found(console):
    assert console.client.get("/api/downstreams/inventry").status_code == 404


def test_a_kind_shows_its_downstreams_and_its_limit_for_the_fleet(app, console):
    app.task(name="book", downstream="inventory", total_concurrency=7)(lambda: None)

    declared = console.get("kinds/book")["kind"]["declared"]

    assert (declared["total_concurrency"], declared["downstreams"]) == (7, ["inventory"])

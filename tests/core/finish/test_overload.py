"""A handler whose other side is overloaded: its row comes back, and nothing has failed."""

import pytest

from tests.core.finish.test_outcome import EITHER, declare
from tests.table import failures, task
from windlass import Overloaded, Status, context, telemetry
from windlass.clock import SECOND
from windlass.core.finish.store import overloaded_since, work_of
from windlass.core.limit import store as limit_store


@pytest.fixture
def events():
    found = []
    stop = telemetry.subscribe(found.append)
    yield found
    stop()


@EITHER
@pytest.mark.everywhere
def test_an_overloaded_row_comes_back_and_no_attempt_is_counted(app, clock, is_async):
    seen = []

    def body(_):
        seen.append(context().attempt)
        if len(seen) < 4:
            raise Overloaded("inventory is full", retry_after="5s")

    call = declare(app, body, is_async=is_async, retries=0, breaker="1 in a row, 1m")
    ref = call.enqueue()
    app.drain()
    row = task(app, ref)
    for _ in range(3):
        app.drain()
        clock.forward("5s")
        app.drain()

    assert (row["status"], row["attempt"]) == (Status.WAITING, 0)
    assert row["remark"] == "Overloaded: inventory is full"
    assert seen == [1, 1, 1, 1]
    assert ref.result() is None
    assert not failures(app)


def test_it_is_counted_apart_from_failures_and_retries(app, clock, events):
    @app.task(retries=3)
    def call() -> None:
        raise Overloaded(retry_after="5s")

    ref = call.enqueue()
    app.drain()

    assert app.database.read(lambda connection: work_of(connection, "call", minute=0)) is None
    (event,) = [event for event in events if event.name == "task.overloaded"]
    assert event.fields["task"] == ref.id
    assert event.fields["seconds"] == 5.0
    assert not [event for event in events if event.name in ("task.failed", "task.retried")]


def test_an_overload_does_not_open_the_breaker(app):
    @app.task(breaker="2 in a row, 1m")
    def call() -> None:
        raise Overloaded(retry_after="5s")

    call.enqueue_many([{}] * 5)
    app.drain()

    found = app.database.read(lambda connection: limit_store.switch_of(connection, "call"))
    assert not found.breaker.is_open
    assert found.breaker.errors_in_a_row == 0


@pytest.mark.everywhere
def test_how_long_a_row_is_overloaded_is_known_until_it_ends(app, clock):
    is_overloaded = [True]

    @app.task
    def call() -> None:
        if is_overloaded:
            raise Overloaded(retry_after="5s")

    def since():
        return app.database.read(lambda connection: overloaded_since(connection, ["call"]))

    call.enqueue()
    began = clock.now()
    for _ in range(3):
        app.drain()
        clock.forward("5s")
    put_off = since()
    is_overloaded.clear()
    app.drain()

    assert abs(put_off["call"] - began) < SECOND
    assert since() == {}


def test_a_rolling_item_keeps_its_last_visit(app, clock):
    calls = []

    @app.rolling(every="1d")
    def stock(code: str) -> str:
        calls.append(code)
        if len(calls) == 2:
            raise Overloaded(retry_after="5s")
        return f"call {len(calls)}"

    stock.add(["bolt"], now=True)
    app.drain()
    clock.forward("1d")
    app.drain()
    between = stock.item("bolt")
    clock.forward("5s")
    app.drain()

    assert between.remark == "call 1"
    assert stock.item("bolt").remark == "call 3"

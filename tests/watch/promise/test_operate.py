"""Promises over all shards, by the API, and in the terminal."""

from contextlib import closing

import pytest

from tests.watch.promise.served import serve, worked
from windlass import App, Promise, UnknownKind
from windlass.clock import SECOND, ManualClock
from windlass.core.task.declare import How
from windlass.errors import Unknown
from windlass.value.task import Call
from windlass.watch.promise.engine import PromiseReader
from windlass.watch.promise.operate import promise as operate

MINUTE = 60 * SECOND


@pytest.fixture
def shop(database_url):
    clock = ManualClock()
    with closing(App(database_url, clock=clock)) as app:

        @app.task(within="10m")
        def send_mail(to: str) -> None: ...

        @app.rolling(every="10d")
        def stock_level(code: str) -> None: ...

        @app.task
        def resize(name: str) -> None: ...

        serve(app, clock)
        yield app, clock


def test_the_worst_promise_comes_first_and_kinds_without_one_are_left_out(shop):
    app, clock = shop
    app.submit(app.registry.get("send_mail"), [Call(("a",), {}, None)], How())
    clock.advance(11 * MINUTE)

    found = app.promises()

    assert [(each.kind, each.state) for each in found] == [
        ("send_mail", "broken"),
        ("stock_level", "unknown"),
    ]
    assert all(isinstance(each, Promise) for each in found)
    assert found.missing == ()


async def test_the_twin_answers_the_same(shop):
    app, _ = shop

    assert await app.apromises() == app.promises()


def test_a_kind_without_a_promise_is_not_found(shop):
    app, clock = shop

    with pytest.raises(Unknown, match="kind 'resize' promises nothing; declare within="):
        operate.show(app.fleet, clock, app.registry, "resize")
    with pytest.raises(UnknownKind):
        operate.show(app.fleet, clock, app.registry, "resise")


@pytest.mark.mostly("sqlite")
def test_a_promise_is_over_all_shards(database_url, second_database_url):
    clock = ManualClock()
    with closing(App(database_url, second_database_url, clock=clock)) as app:

        @app.task(within="10m")
        def send_mail(to: str) -> None: ...

        @app.rolling(every="1h")
        def stock_level(code: str) -> None: ...

        app.migrate()
        stock_level.add(str(number) for number in range(100))
        send_mail.enqueue_many([{"to": str(number)} for number in range(4)])
        clock.advance(11 * MINUTE)
        send_mail.enqueue("late")

        mail, stock = app.promises()

        assert (mail.kind, mail.state) == ("send_mail", "broken")
        assert mail.standing.startswith("5 due; the oldest is due since 11m")
        assert (stock.kind, stock.needed_rate) == ("stock_level", pytest.approx(100 / 3600))
        assert stock.standing.startswith("0 of 100 items are overdue")


@pytest.mark.mostly("sqlite")
def test_the_oldest_row_counts_whichever_priority_it_has(shop):
    app, clock = shop
    mail = app.registry.get("send_mail")
    assert mail.within == 10 * MINUTE
    app.submit(mail, [Call(("a",), {}, None)], How(priority=-5))
    clock.advance(5 * MINUTE)
    app.submit(mail, [Call(("a",), {}, None)], How(priority=5))
    clock.advance(6 * MINUTE)

    (found,) = (each for each in app.promises() if each.kind == "send_mail")

    assert found.state == "broken"
    assert found.standing.startswith("2 due; the oldest is due since 11m")


def test_a_speed_that_follows_the_demand_raises_no_false_alarm(shop):
    app, clock = shop
    # One a minute was enough so far; a hundred at once are still quick.
    worked(app, clock, "send_mail", a_minute=1, milliseconds=20)
    mail = app.registry.get("send_mail")
    app.submit(mail, [Call((str(number),), {}, None) for number in range(100)], How())

    (found,) = (each for each in app.promises() if each.kind == "send_mail")

    assert (found.state, found.cure) == ("kept", None)


@pytest.fixture
def called(database_url):
    """Kinds that promise something and share a downstream."""
    clock = ManualClock()
    with closing(App(database_url, clock=clock)) as app:
        inventory = app.downstream("inventory", rate="10/s", concurrency=2)

        @app.task(within="10m", downstream=inventory)
        def book(code: str) -> None: ...

        @app.rolling(every="1d", downstream=inventory)
        def stock_level(code: str) -> None: ...

        serve(app, clock)
        yield app, clock


def test_a_backlog_is_worked_off_at_what_its_downstream_leaves_to_it(called):
    app, clock = called
    worked(app, clock, "stock_level", a_minute=240, milliseconds=10)
    calls = [Call((f"{number}",), {}, None) for number in range(1_800)]
    app.submit(app.registry.get("book"), calls, How())
    clock.advance(SECOND)

    found = operate.show(app.fleet, clock, app.registry, "book")

    # The others take 4 of its 10 starts a second: 1,800 need 5 minutes.
    assert found.state == "kept"
    assert found.rate == pytest.approx(6.0, rel=0.1)
    assert reader_pace(app, clock, "book").setting.most_rate == pytest.approx(6.0, rel=0.1)


def test_a_downstream_that_is_too_slow_breaks_a_promise_and_is_named_as_the_cure(called):
    app, clock = called
    app.set("inventory", rate="1/s")
    calls = [Call((f"{number}",), {}, None) for number in range(1_800)]
    app.submit(app.registry.get("book"), calls, How())
    clock.advance(SECOND)

    found = operate.show(app.fleet, clock, app.registry, "book")

    assert found.state == "at risk"
    assert "a higher rate of its downstream" in found.cure


def test_the_concurrency_of_a_downstream_bounds_what_workers_reach(called):
    app, clock = called
    worked(app, clock, "book", a_minute=6, milliseconds=1_000)

    # Two at once, each for a second.
    assert reader_pace(app, clock, "book").without_rate == pytest.approx(2.0)


def test_a_paused_downstream_holds_a_promise_and_the_cure_is_to_resume_it(called):
    app, clock = called
    app.pause("inventory")
    app.submit(app.registry.get("book"), [Call(("bolt",), {}, None)], How())
    clock.advance(SECOND)

    found = operate.show(app.fleet, clock, app.registry, "book")

    assert found.cure == "resume it: windlass resume inventory"
    assert found.held_back.startswith("downstream inventory: paused")


def reader_pace(app, clock, kind):
    def read(connection):
        reader = PromiseReader(connection, app.database.dialect, app.registry.kinds, clock.now())
        return reader.pace(app.registry.get(kind))

    return app.database.read(read)

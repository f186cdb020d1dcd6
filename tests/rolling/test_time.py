"""When an item is due again, what is kept of its visit, and the ticks it may wait for."""

import asyncio
from contextlib import closing
from datetime import timedelta

import pytest

from tests.rolling.stock import at, declare
from tests.table import failures
from windlass import App, Cancel, Retry, Snooze, Status, context

pytestmark = pytest.mark.mostly("sqlite", "postgresql")

# What a handler returns, and what is kept of it.
REMARKS = {
    "nothing": (None, None),
    "empty": ("", None),
    "text": ("12 in store", "12 in store"),
    "quoted": ('"quoted"', '"quoted"'),
    "nul": ("nul \x00 byte", "nul \\x00 byte"),
    "number": (12, "12"),
    "mapping": ({"bolt": 3}, '{"bolt":3}'),
    "list": ([1, "zwei"], '[1,"zwei"]'),
    "claim": (False, "false"),
    "ship": ("🚢", "🚢"),
}


@pytest.fixture
def seen():
    return []


@pytest.fixture
def stock(app, seen):
    return declare(app, seen)


@pytest.mark.parametrize("code", ["good", "bad"])
def test_the_end_of_a_visit_alone_decides_when_an_item_is_due_again(app, clock, code):
    @app.rolling(every="10d")
    def stock(code: str) -> None:
        clock.forward("3h")
        if code == "bad":
            raise ValueError

    stock.add([code])
    clock.forward("5d")
    app.drain()

    item = stock.item(code)
    assert item.finished_at >= at(3, day=6)
    assert item.finished_at - item.started_at >= timedelta(hours=3)
    assert item.due_at == item.finished_at + timedelta(days=10)


def test_a_failed_visit_counts_as_one(app, clock):
    @app.rolling(every="1h")
    def stock(code: str) -> None:
        raise ValueError("the other side is down")

    stock.add(["a"])
    app.drain()
    app.drain()

    item = stock.item("a")
    assert (item.status, item.remark) == (Status.FAILED, "ValueError: the other side is down")
    assert len(failures(app)) == 1
    clock.forward("1h")
    app.drain()
    assert len(failures(app)) == 2


def test_retry_after_takes_the_place_of_the_period_after_a_failure(app, clock):
    outcomes = iter([ValueError("no"), None, None])

    @app.rolling(every="10d", retry_after="15m")
    def stock(code: str) -> None:
        if (error := next(outcomes)) is not None:
            raise error

    stock.add(["a"])
    app.drain()
    item = stock.item("a")
    assert item.due_at == item.finished_at + timedelta(minutes=15)

    clock.forward("15m")
    app.drain()
    item = stock.item("a")
    assert (item.status, item.remark) == (Status.SUCCEEDED, None)
    assert item.due_at == item.finished_at + timedelta(days=10)


def test_a_new_period_holds_from_the_next_visit_on(app, stock, seen, database_url, clock):
    stock.add(["a"])
    app.drain()
    with closing(App(database_url, clock=clock)) as later:
        often = declare(later, seen, every="1h")
        clock.forward("10d")

        later.drain()

        item = often.item("a")
        assert item.due_at == item.finished_at + timedelta(hours=1)


def test_each_visit_is_the_first_attempt(app, clock):
    attempts = []

    @app.rolling(every="1h")
    def stock(code: str) -> None:
        attempts.append((context().attempt, context().key))
        raise ValueError

    stock.add(["a"])
    for _ in range(3):
        app.drain()
        clock.forward("1h")

    assert attempts == [(1, "a")] * 3


def test_what_a_handler_returns_is_its_remark(app):
    @app.rolling(every="1d")
    def stock(code: str):
        return REMARKS[code][0]

    stock.add(REMARKS)
    app.drain()

    assert {code: stock.item(code).remark for code in REMARKS} == {
        code: remark for code, (_, remark) in REMARKS.items()
    }
    assert {stock.item(code).status for code in REMARKS} == {Status.SUCCEEDED}


def test_a_remark_has_a_bound(app):
    @app.rolling(every="1d")
    def stock(code: str) -> str:
        if code == "bad":
            raise ValueError("ü" * 5_000)
        return "ü" * 5_000

    stock.add(["good", "bad"])
    app.drain()

    assert stock.item("good").remark == "ü" * 1_000
    assert len(stock.item("bad").remark) == 1_000


def test_a_result_that_cannot_be_kept_is_a_failed_visit(app):
    @app.rolling(every="1d")
    def stock(code: str) -> object:
        return object()

    stock.add(["a"])
    app.drain()

    assert stock.item("a").status is Status.FAILED
    assert "the result cannot be kept" in stock.item("a").remark


def test_a_remark_is_of_the_last_visit_only(app, clock):
    remarks = iter(["first", None])

    @app.rolling(every="1h")
    def stock(code: str) -> str | None:
        return next(remarks)

    stock.add(["a"])
    app.drain()
    assert stock.item("a").remark == "first"
    clock.forward("1h")
    app.drain()

    assert stock.item("a").remark is None


def test_a_handler_may_cancel_its_visit_and_the_item_stays(app, clock):
    @app.rolling(every="1d", retry_after="5m")
    def stock(code: str) -> None:
        raise Cancel("not sold any more")

    stock.add(["a"])
    app.drain()

    item = stock.item("a")
    assert (item.status, item.remark) == (Status.CANCELLED, "not sold any more")
    assert item.due_at == item.finished_at + timedelta(days=1)


def test_a_handler_may_snooze_its_visit_and_the_last_one_stays_as_it_was(app, clock):
    signals = iter([None, Snooze("1h"), None])
    runs = []

    @app.rolling(every="1d")
    def stock(code: str) -> str:
        runs.append(context().attempt)
        if (signal := next(signals)) is not None:
            raise signal
        return f"visit {len(runs)}"

    stock.add(["a"])
    app.drain()
    first = stock.item("a")
    clock.forward("1d")
    app.drain()

    snoozed = stock.item("a")
    assert (snoozed.status, snoozed.remark) == (Status.SUCCEEDED, "visit 1")
    assert snoozed.finished_at == first.finished_at
    assert snoozed.due_at < at(2, day=2)
    clock.forward("1h")
    app.drain()
    assert stock.item("a").remark == "visit 3"
    assert runs == [1, 1, 1]


def test_a_snoozed_first_visit_leaves_the_item_unvisited(app):
    @app.rolling(every="1d")
    def stock(code: str) -> None:
        raise Snooze("1h")

    stock.add(["a"])
    app.drain()

    assert stock.item("a").status is Status.WAITING
    assert stock.item("a").finished_at is None
    assert stock.freshness().never_visited == 1


def test_a_handler_that_asks_for_another_try_gets_it_and_this_one_has_failed(app, clock):
    signals = iter([Retry("busy", after="5m"), None])

    @app.rolling(every="1d", retry_after="2h")
    def stock(code: str) -> None:
        if (signal := next(signals)) is not None:
            raise signal

    stock.add(["a"])
    app.drain()
    item = stock.item("a")
    assert (item.status, item.remark) == (Status.FAILED, "Retry: busy")
    assert item.due_at == item.finished_at + timedelta(minutes=5)

    clock.forward("5m")
    app.drain()
    item = stock.item("a")
    assert (item.status, item.remark) == (Status.SUCCEEDED, None)
    assert item.due_at == item.finished_at + timedelta(days=1)


def test_a_visit_whose_time_is_out_has_failed(app):
    @app.rolling(every="1d", timeout="50ms")
    async def stock(code: str) -> None:
        await asyncio.Event().wait()

    stock.add(["a"])
    app.drain()

    assert stock.item("a").status is Status.FAILED


def test_items_wait_for_the_tick_of_a_cron_expression(app, seen, clock):
    stock = declare(app, seen, tick="0 2 * * *")
    stock.add(["a"])
    app.drain()
    clock.forward("1h59m")
    app.drain()
    assert seen == []

    clock.forward("1m")
    app.drain()
    assert seen == ["a"]

    stock.add(["b"])
    clock.forward("23h")
    app.drain()
    assert seen == ["a"]
    clock.forward("1h")
    app.drain()
    assert seen == ["a", "b"]


def test_a_tick_may_have_a_time_zone(app, seen, clock):
    stock = declare(app, seen, tick="0 9 * * * Asia/Shanghai")
    stock.add(["a"])

    clock.forward("59m")
    app.drain()
    assert seen == []
    clock.forward("1m")
    app.drain()
    assert seen == ["a"]


def test_duration_ticks_are_aligned_to_the_epoch(app, seen, clock):
    clock.forward("5h10m")
    stock = declare(app, seen, tick="6h")
    stock.add(["a"])

    app.drain()
    assert seen == []
    clock.forward("50m")
    app.drain()
    assert seen == ["a"]


def test_an_item_added_now_does_not_wait_for_the_tick(app, seen):
    stock = declare(app, seen, tick="0 2 * * *")
    stock.add(["a", "b"])

    stock.add(["b", "c"], now=True)
    app.drain()

    assert sorted(seen) == ["b", "c"]
    assert stock.item("a").status is Status.WAITING


def test_an_item_is_visited_at_every_tick_if_its_period_is_no_longer(app, seen, clock):
    stock = declare(app, seen, every="1d", tick="0 2 * * *")
    stock.add(["a"])
    clock.forward("2h30m")
    app.drain()
    assert stock.item("a").due_at == at(2, day=2)

    for _ in range(3):
        clock.forward("23h30m")
        app.drain()
        clock.forward("30m")
        app.drain()

    # However late in the night its turn comes, it does not miss the next one.
    assert seen == ["a"] * 4


def test_only_what_was_due_at_the_last_tick_is_taken(app, seen, clock):
    stock = declare(app, seen, every="2d", tick="0 2 * * *")
    stock.add(["a"])
    clock.forward("2h")
    app.drain()
    clock.forward("1d")
    stock.add(["b"])
    app.drain()
    assert seen == ["a"]

    clock.forward("23h59m")
    app.drain()
    assert seen == ["a"]
    clock.forward("1m")
    app.drain()
    assert sorted(seen) == ["a", "a", "b"]


def test_what_is_taken_at_a_tick_does_not_depend_on_how_late_the_worker_is(app, seen, clock):
    stock = declare(app, seen, tick="1h")
    stock.add(["a"])
    clock.forward("1h30m")
    stock.add(["b"])

    clock.forward("29m")
    app.drain()

    assert seen == ["a"]

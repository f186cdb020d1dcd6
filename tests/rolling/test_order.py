"""Who visits which item first, how many at once, and what becomes of items whose worker dies."""

import asyncio
import threading
import time
from contextlib import contextmanager
from datetime import timedelta

import pytest
from sqlalchemy import event

from tests.core.fetch.dead import Doomed, lose
from tests.rolling.stock import Guard, declare, run, together
from tests.table import count, tasks
from windlass import App, BadInput, Status
from windlass.app import FACES
from windlass.core.ring.heartbeat import leave


@pytest.fixture
def seen():
    return []


@pytest.fixture
def stock(app, seen):
    return declare(app, seen)


def test_after_an_outage_the_oldest_are_visited_first(app, stock, seen, clock):
    visited = ["f", "b", "a", "e", "d", "c"]
    for code in visited:
        stock.add([code])
        app.drain()
        clock.forward("1h")
    seen.clear()
    clock.forward("60d")

    run(app, concurrency=1)

    assert seen == visited


def test_items_are_visited_by_the_priority_of_their_kind(app, seen):
    low = app.rolling(every="1d", name="low", priority=-1)(seen.append)
    high = app.rolling(every="1d", name="high", priority=10)(seen.append)
    middle = app.rolling(every="1d", name="middle")(seen.append)
    for kind in (low, middle, high):
        kind.add([f"{kind.kind}-{number}" for number in range(3)])

    run(app, concurrency=1)

    assert [code.split("-")[0] for code in seen] == ["high"] * 3 + ["middle"] * 3 + ["low"] * 3


def test_no_more_run_at_once_than_the_kind_allows_and_as_many_do(app):
    guard = Guard()

    @app.rolling(every="1d", concurrency=3)
    async def stock(code: str) -> None:
        guard.enter(code)
        while len(guard.visited) < 3:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        guard.leave(code)

    stock.add(f"code-{number}" for number in range(60))
    app.drain()

    assert guard.most == 3
    assert len(guard.visited) == 60


def test_a_claim_takes_no_more_than_a_batch(app, seen):
    stock = declare(app, seen, batch=4)
    stock.add(f"code-{number}" for number in range(30))
    batching = app.worker(concurrency=50)
    batching.heartbeat.join_ring()

    batching.fetcher.tick()

    assert len(batching.in_flight.rows) == 4
    batching.fetcher.tick()
    assert len(batching.in_flight.rows) == 8
    batching.heartbeat.leave("enough")


def test_several_programs_never_visit_one_item_at_the_same_time(app, database_url, clock):
    guard = Guard()

    def make(one):
        @one.rolling(every="1h", batch=5)
        def stock(code: str) -> None:
            guard.enter(code)
            time.sleep(0.001)
            guard.leave(code)

        return stock

    apps = [app, *(App(database_url, clock=clock) for _ in range(2))]
    stock, *_ = [make(one) for one in apps]
    codes = {f"code-{number}" for number in range(90)}
    stock.add(codes)

    for round_ in (1, 2):
        together(lambda one: run(one, concurrency=10), apps)
        assert len(guard.visited) == 90 * round_
        assert set(guard.visited[-90:]) == codes
        clock.forward("1h")
    for one in apps[1:]:
        one.close()

    assert guard.overlapped == []


def test_what_a_living_worker_visits_is_nobody_elses(app, stock, seen, clock):
    stock.add(["a"])
    Doomed(app).take()

    clock.forward("30d")
    app.drain()

    assert seen == []
    assert stock.item("a").status is Status.RUNNING
    assert stock.item("a").due_at is None


def test_an_item_whose_worker_died_is_visited_again(app, stock, seen):
    stock.add(["a"])
    lose(app)

    app.drain()

    assert seen == ["a"]
    (row,) = tasks(app)
    assert (row["status"], row["attempt"], row["lost"]) == (Status.WAITING, 0, 0)


def test_an_item_that_kills_its_workers_fails_and_waits_for_its_next_visit(app, seen, clock):
    stock = declare(app, seen, max_lost=1)
    stock.add(["a"])
    lose(app)

    app.drain()

    item = stock.item("a")
    assert seen == []
    assert item.status is Status.FAILED
    assert "poison" in item.remark
    assert item.due_at == item.finished_at + timedelta(days=10)
    clock.forward("10d")
    app.drain()
    assert seen == ["a"]


def test_an_item_that_was_removed_before_its_worker_died_is_gone(app, stock, seen):
    stock.add(["a", "b"])
    doomed = Doomed(app)
    doomed.take()
    assert stock.remove(["a"]) == 1

    doomed.die()
    app.drain()

    assert seen == ["b"]
    assert [row["task_key"] for row in tasks(app)] == ["b"]


def test_an_item_that_is_removed_after_its_worker_died_is_not_visited_again(app, stock, seen):
    stock.add(["a"])
    lose(app)

    assert stock.remove(["a"]) == 1
    app.drain()

    assert seen == []
    assert count(app) == 0


@pytest.mark.parametrize("how", ["leaves", "dies"])
def test_an_item_that_is_removed_while_its_worker_goes_is_not_visited_again(app, stock, seen, how):
    stock.add(["a"])
    going = Doomed(app)
    going.take()

    with beside_an_update(app, lambda: stock.remove(["a"])):
        if how == "dies":
            going.die()
        else:
            now = app.clock.now()
            leave(app.database, FACES, number=going.number, now=now, why="test", due={})
    app.drain()

    assert seen == []
    assert count(app) == stock.freshness().total == 0


@contextmanager
def beside_an_update(app, call):
    """Call on another thread just before the first row of a task is updated meanwhile."""
    beside = threading.Thread(target=call)

    def on_execute(_connection, _cursor, statement, *_):
        if statement.lower().lstrip().startswith("update windlass_task") and not beside.ident:
            beside.start()
            # Where rows or the database are locked already it ends only after us.
            beside.join(0.3)

    event.listen(app.database.engine, "before_cursor_execute", on_execute)
    try:
        yield
    finally:
        event.remove(app.database.engine, "before_cursor_execute", on_execute)
    beside.join(20)
    assert not beside.is_alive()


def test_an_item_that_comes_back_after_its_worker_died_is_visited(app, stock, seen):
    stock.add(["a"])
    doomed = Doomed(app)
    doomed.take()
    stock.remove(["a"])
    assert stock.add(["a"]) == 1

    doomed.die()
    app.drain()

    assert seen == ["a"]
    assert stock.freshness().total == count(app) == 1


def test_the_row_of_an_item_cannot_be_cancelled(app, stock, seen):
    stock.add(["a"])
    (row,) = tasks(app)

    with pytest.raises(BadInput, match="remove it instead"):
        app.cancel(row["id"])

    app.drain()
    assert seen == ["a"]

"""First exposure: many callers make one visit, and a page view does not wait for it."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from sqlalchemy import func, select

from tests.rolling.stock import serving
from tests.spawn import Spawned
from tests.sweep.offer import Articles, declare
from tests.wait import eventually
from windlass import BadDuration, BadKey, HeldBack, Keys, Overloaded, Status, Table, VisitSoon
from windlass.clock import SECOND
from windlass.core.face import Tidying
from windlass.database import schema
from windlass.sweep.operate import soon as soon_engine
from windlass.sweep.operate.hold import KeyHold
from windlass.sweep.store import request as store

everywhere = pytest.mark.everywhere
mostly = pytest.mark.mostly("sqlite")


@pytest.fixture
def seen():
    return []


@pytest.fixture
def offer(app, seen):
    return declare(app, seen)


def waiting(app):
    return app.database.read(
        lambda connection: connection.scalar(select(func.count()).select_from(schema.visit_request))
    )


def resting(app, seen, clock, **options):
    """A sweep whose only round is over, long ago."""
    offer = declare(app, seen, redo=None, **options)
    app.drain()
    clock.forward("2h")
    seen.clear()
    return offer


# Many callers


@everywhere
def test_a_hundred_threads_make_one_call(app):
    calls, begun = [], threading.Barrier(100)

    @app.sweep(Keys(1, 10))
    def offer(number: int) -> None:
        calls.append(number)

    def visit(_):
        begun.wait(30)
        return offer.visit(7, fresh="10m", timeout="60s")

    with ThreadPoolExecutor(100) as threads:
        visits = list(threads.map(visit, range(100)))

    assert calls == [7]
    assert {each.status for each in visits} == {Status.SUCCEEDED}
    assert sum(each.is_new for each in visits) == 1
    assert waiting(app) == 0


PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from windlass import App, Keys

app = App(sys.argv[1])

@app.sweep(Keys(1, 10))
def offer(number):
    with open(sys.argv[2], "a") as calls:
        calls.write("called\\n")

def visit(_):
    return offer.visit(7, fresh="10m", timeout="60s")

with ThreadPoolExecutor(10) as threads:
    found = list(threads.map(visit, range(10)))
assert {each.status.name for each in found} == {"SUCCEEDED"}
app.close()
"""


@everywhere
def test_four_processes_make_one_call(app, database_url, tmp_path):
    calls = tmp_path / "calls"
    (tmp_path / "callers.py").write_text(PROGRAM)
    app.prepare()

    processes = [
        Spawned(
            *("callers", database_url, str(calls)),
            folder=tmp_path,
            log=tmp_path / f"log{number}",
            environment=os.environ,
        )
        for number in range(4)
    ]

    assert [process.wait(120) for process in processes] == [0, 0, 0, 0]
    assert calls.read_text() == "called\n"


@mostly
def test_a_caller_that_waits_gets_the_result_of_the_one_that_runs(app, monkeypatch):
    calls, taken, go_on, take = [], [], threading.Event(), KeyHold.take
    monkeypatch.setattr(KeyHold, "take", lambda hold: taken.append(take(hold)) or taken[-1])

    @app.sweep(Keys(1, 10))
    def offer(number: int) -> None:
        calls.append(number)
        go_on.wait(30)
        raise ValueError("no offer")

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(offer.visit, 7)
        eventually(lambda: calls)
        second = threads.submit(offer.visit, 7)
        eventually(lambda: False in taken)
        go_on.set()

    assert first.result().error == second.result().error == "ValueError: no offer"
    assert calls == [7]


@everywhere
def test_the_key_of_a_caller_that_died_is_visited_by_another(app, offer, clock, seen):
    app.prepare()
    now = clock.now()
    app.database.write(
        lambda connection: store.hold(
            connection,
            app.database.dialect,
            "offer",
            key="7",
            batch=10**15,
            now=now,
            until=now + 10 * SECOND,
        )
    )

    with ThreadPoolExecutor(1) as threads:
        visit = threads.submit(offer.visit, 7)
        assert not visit.done()
        clock.forward("11s")

    assert visit.result().status is Status.SUCCEEDED
    assert seen == [7]


@mostly
def test_an_overloaded_visit_has_not_failed_and_the_caller_is_told(app):
    @app.sweep(Keys(1, 10), breaker="1 in a row, 1m")
    def offer(number: int) -> None:
        raise Overloaded("inventory is full", retry_after="5s")

    for _ in range(2):
        with pytest.raises(HeldBack, match="inventory is full"):
            offer.visit(7)
    assert offer.failures() == []
    assert waiting(app) == 0


@mostly
def test_visits_of_callers_share_one_rate_and_take_one_start_each(app, offer):
    @app.sweep(Keys(1, 1_000), rate="100/s", name="rated")
    def rated(number: int) -> None: ...

    for number in range(1, 4):
        rated.visit(number)

    row = app.database.read(
        lambda connection: connection.execute(
            select(schema.rate.c.next_at).where(schema.rate.c.kind == "rated")
        ).one()
    )
    measured = app.database.read(app.database.dialect.measure)
    # Three starts are 30 ms: a visit does not use up a whole slice.
    assert row.next_at < measured + SECOND // 5


# What a round did


@everywhere
def test_what_the_round_did_is_fresh(app, clock, offer, seen):
    app.drain()
    seen.clear()

    clock.forward("9m")
    fresh = offer.visit(7, fresh="10m")
    clock.forward("2m")
    later = offer.visit(7, fresh="10m")

    assert (fresh.is_new, fresh.status) == (False, Status.SUCCEEDED)
    assert later.is_new
    assert seen == [7]


@everywhere
def test_a_row_that_came_after_the_round_passed_it_is_not_fresh(app, database_url, seen):
    with closing(Articles(database_url)) as articles:
        articles.insert(1, 3, 5)
        offer = declare(app, seen, source=Table(database_url, "article", key="id"), ranges=1)
        app.drain()
        seen.clear()
        articles.insert(2)

        visits = [offer.visit(number, fresh="10m") for number in (1, 2, 3)]

    assert [each.is_new for each in visits] == [False, True, False]
    assert [row["id"] for row in seen] == [2]


@mostly
def test_an_item_that_failed_in_the_round_is_not_fresh(app):
    calls = []

    @app.sweep(Keys(1, 3))
    def offer(number: int) -> None:
        calls.append(number)
        if calls.count(number) == 1 and number == 2:
            raise ValueError("no")

    app.drain()

    assert offer.visit(2, fresh="10m").is_new
    assert offer.failures() == []


@mostly
def test_all_items_are_written_down_once_visits_ask_for_it(app, seen, monkeypatch):
    monkeypatch.setattr("windlass.sweep.engine.range_runner.FIRST_NOTED", 5)
    offer = declare(app, seen, source=Keys(1, 50), ranges=1, redo=None)

    def noted():
        return app.database.read(
            lambda connection: connection.scalar(
                select(func.count()).select_from(schema.sweep_done)
            )
        )

    app.drain()
    few = noted()
    offer.visit(50, fresh="10m")
    offer.start()
    app.drain()

    assert few == 5
    assert noted() == 50


@mostly
def test_what_rounds_did_long_ago_is_forgotten(app, clock, offer):
    app.drain()
    offer.visit(7, fresh="10m")

    clock.forward("11m")

    def prune(connection):
        faces = app.fleet.shards[0].faces
        return store.prune(
            Tidying(connection, app.database.dialect, faces, clock.now(), limit=1_000)
        )

    assert app.database.write(prune) == 100
    assert app.database.write(prune) == 0


# Soon


@everywhere
def test_a_visit_that_is_asked_for_runs_in_a_worker(app, clock, seen):
    offer = resting(app, seen, clock)

    first = offer.visit_soon(7, fresh="10m")
    second = offer.visit_soon(7, fresh="10m")
    before = list(seen)
    app.drain()
    third = offer.visit_soon(7, fresh="10m")

    assert (first, second, third) == (VisitSoon.ASKED, VisitSoon.PENDING, VisitSoon.FRESH)
    assert before == []
    assert seen == [7]
    assert offer.visit(7, fresh="10m").is_new is False
    assert waiting(app) == 0


@everywhere
def test_a_thousand_calls_for_one_key_make_one_visit(app, clock, seen):
    offer = resting(app, seen, clock)

    with serving(app), ThreadPoolExecutor(20) as threads:
        asked = list(threads.map(lambda _: offer.visit_soon(7, fresh="10m"), range(1_000)))
        eventually(lambda: offer.visit_soon(7, fresh="10m") is VisitSoon.FRESH)

    assert seen == [7]
    assert set(asked) <= set(VisitSoon) - {VisitSoon.FULL}


@mostly
async def test_it_may_be_awaited(app, seen):
    offer = declare(app, seen)

    assert await offer.avisit_soon(7) is VisitSoon.ASKED
    await app.adrain()

    assert seen.count(7) == 2


@mostly
def test_without_fresh_each_call_after_a_visit_asks_for_another(app, clock, seen):
    offer = resting(app, seen, clock)

    for _ in range(2):
        assert offer.visit_soon(7) is VisitSoon.ASKED
        app.drain()

    assert seen == [7, 7]


@mostly
def test_a_paused_sweep_visits_when_it_is_resumed(app, clock, seen):
    offer = resting(app, seen, clock)
    offer.pause("sale")
    offer.visit_soon(7)
    app.drain()
    held = list(seen)

    offer.resume()
    app.drain()

    assert held == []
    assert seen == [7]


@mostly
def test_the_rate_counts_visits_that_are_asked_for(app, clock, seen):
    offer = resting(app, seen, clock, source=Keys(1, 10), rate="100/s")
    for number in range(1, 11):
        offer.visit_soon(number)

    app.drain()

    row = app.database.read(
        lambda connection: connection.execute(
            select(schema.rate.c.next_at).where(schema.rate.c.kind == "offer")
        ).one()
    )
    assert sorted(seen) == list(range(1, 11))
    assert row.next_at > 0


@mostly
def test_at_most_so_many_wait(app, clock, seen, monkeypatch):
    monkeypatch.setattr(soon_engine, "MOST_PENDING", 3)
    offer = resting(app, seen, clock)

    asked = [offer.visit_soon(number) for number in range(1, 6)]

    assert asked == [VisitSoon.ASKED] * 3 + [VisitSoon.FULL] * 2
    assert waiting(app) == 3


@mostly
def test_an_unknown_key_is_dropped_and_one_that_cannot_be_a_key_is_refused(app, clock, seen):
    offer = resting(app, seen, clock)
    offer.visit_soon(700)

    app.drain()

    assert (seen, waiting(app), offer.failures()) == ([], 0, [])
    with pytest.raises(BadKey):
        offer.visit_soon(None)
    with pytest.raises(BadDuration, match="fresh"):
        offer.visit_soon(7, fresh="soon")


@mostly
def test_one_that_fails_is_listed_and_counts_as_fresh(app, clock):
    @app.sweep(Keys(1, 10), redo=None)
    def offer(number: int) -> None:
        if number == 7:
            raise ValueError("no offer")

    app.drain()
    clock.forward("1h")
    offer.visit_soon(7)
    app.drain()

    (failed,) = offer.failures()
    assert (failed.key, failed.error) == (7, "ValueError: no offer")
    assert offer.visit_soon(7, fresh="10m") is VisitSoon.FRESH


@everywhere
def test_one_whose_worker_died_runs_again_but_not_for_long(app, clock, seen):
    offer = resting(app, seen, clock)
    offer.visit_soon(7)

    def die():
        app.database.write(
            lambda connection: store.claim(
                connection, "offer", batch=1, worker=99, now=clock.now(), limit=10
            )
        )
        app.database.write(lambda connection: store.abandon(connection, 99))
        return waiting(app)

    assert [die(), die(), die()] == [1, 1, 0]


@mostly
def test_a_caller_takes_over_what_is_asked_for(app, clock, seen):
    offer = resting(app, seen, clock)
    offer.visit_soon(7)

    offer.visit(7)
    app.drain()

    assert seen == [7]


@mostly
def test_one_that_is_overloaded_is_tried_again(app, clock):
    calls = []

    @app.sweep(Keys(1, 10), redo=None)
    def offer(number: int) -> None:
        calls.append(number)
        if len(calls) == 11:
            raise Overloaded(retry_after="5s")

    app.drain()
    offer.visit_soon(7)
    app.drain()
    left = waiting(app), len(calls)
    clock.forward("5s")
    app.drain()

    assert left == (1, 11)
    assert calls[10:] == [7, 7]
    assert offer.failures() == []

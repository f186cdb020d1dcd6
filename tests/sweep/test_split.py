"""Sweeps that are split and merged while they run, and stragglers of which half is stolen."""

import asyncio
import threading
from collections import Counter
from contextlib import ExitStack, closing

import pytest

from tests.rolling.stock import serving
from tests.sweep.offer import Articles, declare
from tests.wait import eventually
from windlass import App, BadInput, Keys, Table

# What differs between the databases is proven by the protocol's tests, on all three.
pytestmark = pytest.mark.mostly("sqlite")
everywhere = pytest.mark.everywhere


@pytest.fixture
def seen():
    return []


@pytest.fixture
def offer(app, seen):
    return declare(app, seen)


def test_a_round_that_waits_is_split_into_more_ranges(app, offer, seen):
    offer.start()

    assert offer.split(10) == 10

    assert len(offer.ranges()) == 10
    assert offer.audit().ok
    app.drain()
    assert Counter(seen) == dict.fromkeys(range(1, 101), 1)
    assert offer.audit().ok


def test_fewer_ranges_are_made_by_merging_untouched_neighbours(app, offer, seen):
    offer.start()

    assert offer.split(2) == 2
    assert offer.audit().ok
    assert offer.split(1) == 1

    assert [(each.begin, each.end) for each in offer.ranges()] == [(None, None)]
    app.drain()
    assert Counter(seen) == dict.fromkeys(range(1, 101), 1)


def test_the_rounds_to_come_have_as_many_ranges(app, offer):
    offer.split(9)

    app.drain()
    assert len(offer.ranges()) == 9
    offer.start()

    assert len(offer.ranges()) == 9


def test_no_more_ranges_are_made_than_there_are_keys(app, seen):
    offer = declare(app, seen, source=Keys(1, 5), ranges=2)
    offer.start()

    assert offer.split(60) <= 5

    assert offer.audit().ok
    app.drain()
    assert sorted(seen) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("count", [0, -3, 4_097, 1.5, "60", None, True])
def test_a_number_of_ranges_that_makes_no_sense_is_refused(offer, count):
    with pytest.raises(BadInput, match="give a number from 1 to 4096"):
        offer.split(count)


@everywhere
def test_a_sweep_is_split_while_it_is_paused(app, offer, seen):
    offer.start()
    offer.pause("sale")

    assert offer.split(12) == 12
    app.drain()
    assert seen == []
    offer.resume()
    app.drain()

    assert sorted(seen) == list(range(1, 101))


@everywhere
def test_a_table_is_split_by_rows_and_not_by_the_value_of_keys(app, database_url, seen):
    with closing(Articles(database_url)) as articles:
        articles.insert(*range(1, 65), *range(10**9, 10**9 + 64))
        offer = declare(app, seen, Table(articles.engine.url, "article", key="id"), ranges=1)
        offer.start()
        offer.split(4)
        app.drain()

    assert [each.done for each in offer.ranges()] == [32] * 4


def test_splits_and_merges_while_it_runs_lose_and_double_nothing(database_url):
    app = App(database_url)
    seen = []

    @app.sweep(Keys(1, 3_000), ranges=3, concurrency=10, batch=20)
    async def offer(number: int) -> None:
        seen.append(number)
        await asyncio.sleep(0.001)

    with closing(app), serving(app):
        eventually(lambda: len(seen) > 50, 10.0)
        for count in (8, 30, 12, 40, 5, 60):
            offer.split(count)
            assert offer.audit().ok
            before = len(seen)
            eventually(lambda before=before: len(seen) > before + 20, 10.0)
        eventually(offer.rounds, 30.0, what="the end of the round")

    assert Counter(seen) == dict.fromkeys(range(1, 3_001), 1)
    assert offer.audit().ok
    assert offer.progress().repeated == 0


def test_an_idle_worker_steals_half_of_what_is_left(database_url):
    seen: list[int] = []
    stolen = threading.Event()
    apps = [App(database_url) for _ in range(2)]
    sweeps = []

    for app in apps:

        @app.sweep(Keys(1, 400), ranges=1, concurrency=2, batch=20)
        def offer(number: int) -> None:
            seen.append(number)
            if number > 100:
                stolen.wait(30.0)

        sweeps.append(offer)

    with ExitStack() as stack:
        for app in apps:
            stack.enter_context(closing(app))
            stack.enter_context(serving(app))
        eventually(lambda: len(sweeps[0].ranges()) > 1, 30.0, what="a stolen half")
        stolen.set()
        eventually(sweeps[0].rounds, 30.0, what="the end of the round")

    assert Counter(seen) == dict.fromkeys(range(1, 401), 1)
    assert sweeps[0].audit().ok


def test_nothing_is_stolen_from_a_sweep_that_does_not_want_it(database_url):
    seen: list[int] = []
    apps = [App(database_url) for _ in range(2)]
    sweeps = [
        declare(app, seen, source=Keys(1, 100), ranges=1, steal=False, concurrency=1)
        for app in apps
    ]

    with ExitStack() as stack:
        for app in apps:
            stack.enter_context(closing(app))
            stack.enter_context(serving(app))
        eventually(sweeps[0].rounds, 30.0)

    assert len(sweeps[0].ranges()) == 1
    assert seen == list(range(1, 101))


def test_a_straggler_with_a_slow_item_leaves_the_rest_to_others(database_url):
    """The first item hangs; all the others are done meanwhile, by whoever."""
    hang, seen = threading.Event(), []
    apps = [App(database_url) for _ in range(2)]
    sweeps = []
    for app in apps:

        @app.sweep(Keys(1, 200), ranges=1, concurrency=1, batch=10)
        def offer(number: int) -> None:
            seen.append(number)
            if number == 1:
                hang.wait(30)

        sweeps.append(offer)

    with ExitStack() as stack:
        for app in apps:
            stack.enter_context(closing(app))
            stack.enter_context(serving(app))
        eventually(lambda: len(seen) >= 150, 20.0, what="half of the rest, stolen")
        hang.set()
        eventually(sweeps[0].rounds, 20.0)

    assert Counter(seen) == dict.fromkeys(range(1, 201), 1)

"""Visits of single keys of a sweep: run at once by whoever asks, and remembered."""

import asyncio
from contextlib import closing

import pytest

from tests.sweep.offer import Articles, declare
from windlass import (
    BadKey,
    BadSource,
    HeldBack,
    ItemNotFound,
    Keys,
    ResultTimeout,
    Status,
    Table,
    context,
)

# What differs between the databases is proven by the protocol's tests, on all three.
pytestmark = pytest.mark.mostly("sqlite")
everywhere = pytest.mark.everywhere


@pytest.fixture
def seen():
    return []


@pytest.fixture
def offer(app, seen):
    return declare(app, seen)


def test_a_visit_runs_the_item_now(offer, seen):
    visit = offer.visit(7)

    assert seen == [7]
    assert (visit.key, visit.status, visit.error) == (7, Status.SUCCEEDED, None)
    assert visit.is_new


@everywhere
def test_a_visit_that_is_fresh_enough_is_not_repeated(offer, seen, clock):
    first = offer.visit(7, fresh="10m")
    clock.forward("9m")
    second = offer.visit(7, fresh="10m")
    clock.forward("2m")
    third = offer.visit(7, fresh="10m")

    assert seen == [7, 7]
    assert (first.is_new, second.is_new, third.is_new) == (True, False, True)
    assert second.visited_at == first.visited_at


def test_a_visit_hands_the_row(app, database_url, seen):
    with closing(Articles(database_url, 3)) as articles:
        offer = declare(app, seen, Table(articles.engine.url, "article", key="id"))
        offer.visit(2)

    assert seen == [{"id": 2, "title": "t2"}]


def test_a_visit_of_a_list_handler_hands_a_list_of_one(app, seen):
    declare(app, seen, many=True).visit(9)

    assert seen == [[9]]


@everywhere
def test_a_visit_that_fails_is_listed_and_a_later_one_clears_it(app):
    bad = {7}

    @app.sweep(Keys(1, 10))
    def offer(number: int) -> None:
        assert context().key == str(number)
        if number in bad:
            raise ValueError("no")

    visit = offer.visit(7)
    assert (visit.status, visit.error) == (Status.FAILED, "ValueError: no")
    assert [each.key for each in offer.failures()] == [7]
    bad.clear()
    offer.visit(7)

    assert offer.failures() == []


def test_a_key_that_is_not_there_is_told(offer):
    with pytest.raises(ItemNotFound, match="sweep 'offer' has no item '700'"):
        offer.visit(700)
    with pytest.raises(BadKey):
        offer.visit(None)


def test_a_sweep_that_is_paused_is_not_visited(offer, seen):
    offer.pause("sale", who="ada")

    with pytest.raises(HeldBack, match="paused by ada"):
        offer.visit(7)
    assert seen == []


def test_a_source_without_find_needs_key_only(app, seen):
    class Bare:
        def bounds(self, ranges):
            return []

        def middle(self, after, upto):
            return None

        def read(self, after, upto, limit):
            return []

    rows = declare(app, seen, source=Bare(), name="rows")
    keys = declare(app, seen, source=Bare(), name="keys", key_only=True)

    with pytest.raises(BadSource, match="has no find"):
        rows.visit("a")
    keys.visit("a")
    assert seen == ["a"]


async def test_a_visit_is_awaited_on_the_event_loop_of_the_caller(app):
    loops = []

    @app.sweep(Keys(1, 10))
    async def offer(number: int) -> None:
        loops.append(asyncio.get_running_loop())

    visit = await offer.avisit(3)

    assert visit.status is Status.SUCCEEDED
    assert loops == [asyncio.get_running_loop()]


async def test_a_visit_that_takes_too_long_is_given_up(app):
    @app.sweep(Keys(1, 10))
    async def offer(number: int) -> None:
        await asyncio.Event().wait()

    with pytest.raises(ResultTimeout, match=r"did not end within 0\.2 s"):
        await offer.avisit(3, timeout="200ms")


def test_a_handler_that_exceeds_its_own_time_fails_the_visit(app):
    @app.sweep(Keys(1, 10), timeout="100ms")
    async def offer(number: int) -> None:
        await asyncio.Event().wait()

    assert offer.visit(3).status is Status.FAILED

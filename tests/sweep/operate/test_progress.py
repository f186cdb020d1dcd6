"""How far a sweep is, as its rows tell: position, speed, owner and what is left."""

import asyncio
from contextlib import closing
from datetime import timedelta

import pytest

from tests.rolling.stock import serving
from tests.sweep.manual_worker import SweepHand
from tests.sweep.offer import declare
from tests.wait import eventually
from windlass import App, BadInput, Keys, Status
from windlass.clock import to_datetime
from windlass.sweep.store import range as ranges


@pytest.fixture
def offer(app):
    return declare(app, [], source=Keys(1, 20), ranges=2)


def save(app, owner, per_second):
    """Save what the owner of a range has done, at that speed; when."""
    what, now = owner.save(), app.clock.now()
    what.per_second = per_second
    app.database.write(lambda connection: ranges.save(connection, what, sweep="offer", now=now))
    return now


def test_progress_tells_position_speed_owner_and_how_long_the_rest_takes(app, offer):
    offer.start()
    hand = SweepHand(app, 20)
    owner = hand.claim()
    hand.reserve(owner, 8)
    for item in list(owner.todo)[:5]:
        owner.run(item)
    saved_at = save(app, owner, 2.0)

    progress = offer.progress()

    assert (progress.round, progress.is_running, progress.total) == (1, True, 20)
    assert (progress.done, progress.percent, progress.rate) == (5, 25.0, 2.0)
    assert progress.eta == timedelta(seconds=7.5)
    first, second = progress.ranges
    assert (first.begin, first.breakpoint, first.read_to, first.end) == (None, 5, 8, 10)
    assert (first.owner, first.rate, first.percent) == (hand.id, 2.0, 50.0)
    assert first.heartbeat_at == to_datetime(saved_at)
    assert (second.status, second.owner, second.heartbeat_at) == (Status.WAITING, None, None)
    assert second.end is None


def test_a_range_that_was_not_heard_of_has_no_speed_and_nobody_knows_the_end(app, offer, clock):
    offer.start()
    owner = SweepHand(app, 20).claim()
    save(app, owner, 2.0)

    clock.forward("1m")

    progress = offer.progress()
    assert (progress.rate, progress.eta) == (0.0, None)


def test_a_range_that_needs_much_longer_than_the_others_is_marked(app, offer):
    offer.start()
    quick, slow = SweepHand(app, 20).claim(), SweepHand(app, 20).claim()
    save(app, quick, 100.0)
    save(app, slow, 0.1)

    assert [each.is_straggler for each in offer.ranges()] == [False, True]


class Uncounted:
    """Numbers that nobody has counted."""

    def __init__(self, begin, end):
        keys = Keys(begin, end)
        self.bounds, self.middle, self.read = keys.bounds, keys.middle, keys.read


@pytest.mark.mostly("sqlite")
def test_how_far_a_source_is_that_does_not_count_its_rows_is_not_known(app):
    offer = declare(app, [], source=Uncounted(1, 20), ranges=2)
    offer.start()

    assert offer.split(3) == 3

    progress = offer.progress()
    assert (progress.total, progress.percent, progress.eta) == (None, None, None)
    assert {(each.rows_estimate, each.percent) for each in progress.ranges} == {(None, None)}
    app.drain()
    assert (offer.progress().total, offer.progress().percent) == (20, 100.0)


@pytest.mark.mostly("sqlite")
def test_a_range_that_nobody_has_counted_is_cut_for_an_idle_worker(database_url):
    app, successor = App(database_url), App(database_url)
    seen = []

    def declared(to):
        @to.sweep(Uncounted(1, 2_000), ranges=1, concurrency=2)
        async def offer(number: int) -> None:
            seen.append(number)
            await asyncio.sleep(0.01)

        return offer

    offer, _ = declared(app), declared(successor)
    with closing(app), closing(successor), serving(app):
        eventually(lambda: len(seen) > 10, 10.0)
        with serving(successor):
            eventually(lambda: len(offer.ranges()) > 1, 10.0, what="a range of its own")

    assert all(each.rows_estimate is None for each in offer.ranges())


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize("limit", ["x", -1, 0, True, 1.5, None])
def test_a_limit_that_makes_no_sense_is_refused(offer, limit):
    with pytest.raises(BadInput, match="is not a number from 1 on"):
        offer.failures(limit=limit)
    with pytest.raises(BadInput, match="is not a number from 1 on"):
        offer.rounds(limit=limit)

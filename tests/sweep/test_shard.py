"""Sweeps in an app with several shards: each is in one of them, with all its ranges."""

from collections import Counter

import pytest

from tests.sweep.offer import declare
from windlass import Keys
from windlass.operate.shard import operate
from windlass.sweep.store import sweep as store


def holders(app, name):
    return [
        shard
        for shard in app.fleet.shards
        if shard.database.read(lambda connection: store.get(connection, name)) is not None
    ]


def test_a_sweep_runs_once_whatever_the_number_of_shards(sharded):
    seen = []
    offer = declare(sharded, seen)

    sharded.drain()

    assert Counter(seen) == dict.fromkeys(range(1, 101), 1)
    assert len(holders(sharded, "offer")) == 1
    assert offer.progress().percent == 100.0
    assert offer.audit().ok


def test_a_sweep_is_started_split_paused_and_retried_wherever_it_is(sharded):
    bad, seen = {7}, []

    @sharded.sweep(Keys(1, 30), ranges=2)
    def offer(number: int) -> None:
        seen.append(number)
        if number in bad:
            raise ValueError("no")

    assert offer.start() == 1
    assert offer.split(5) == 5
    offer.pause("sale")
    sharded.drain()
    assert seen == []
    offer.resume()
    sharded.drain()
    assert [each.key for each in offer.failures()] == [7]
    bad.clear()
    assert offer.retry_failures() == 1

    assert offer.failures() == []
    assert offer.visit(3).is_new
    assert len(holders(sharded, "offer")) == 1


@pytest.mark.usefixtures("quick_moves")
def test_a_sweep_of_a_shard_that_is_taken_out_begins_anew_in_another(sharded, shard_urls, make_app):
    seen = []
    declare(sharded, seen)
    sharded.drain()
    (holder,) = holders(sharded, "offer")
    name = str(holder.index)

    operate.drain(sharded.fleet, name)
    moved = operate.move(sharded.fleet, name, dead_after=5_000_000)
    rest = make_app(*(url for place, url in enumerate(shard_urls, 1) if place != holder.index))
    again = []
    offer = declare(rest, again)
    rest.drain()

    assert moved.sweeps == ["offer"]
    assert Counter(again) == Counter(seen)
    assert offer.progress().round == 1


def test_the_runs_of_a_sweep_are_in_its_shard(sharded):
    seen = []

    @sharded.sweep(name="offer")
    def offer(number: int) -> None:
        seen.append(number)

    runs = [offer.start(source=Keys(first, first + 9)) for first in (1, 101)]
    sharded.drain()

    assert Counter(seen) == dict.fromkeys([*range(1, 11), *range(101, 111)], 1)
    assert [run.progress().done for run in runs] == [10, 10]
    (home,) = holders(sharded, "offer")
    assert holders(sharded, "offer@1") == holders(sharded, "offer@2") == [home]

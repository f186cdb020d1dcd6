"""Watching from outside: a fleet without workers, a database that is gone, heartbeats."""

from contextlib import closing

import pytest
from sqlalchemy import make_url

from tests.server.relay import Relay
from tests.watch.lookout import HOUR, MINUTE, looking_out
from tests.watch.receiver import Receiver, receiving
from windlass import App, Status
from windlass.core.face import Site
from windlass.watch.engine import outside
from windlass.watch.engine.beat import Beats


@pytest.fixture
def receiver():
    with receiving(Receiver()) as made:
        yield made


def test_a_fleet_without_workers_is_noticed_and_delivered_by_the_watcher_itself(
    database_url, receiver
):
    with looking_out(database_url) as lookout:

        @lookout.app.task
        def lonely() -> None: ...

        lookout.app.alert_to(f"webhook+{receiver.url}")
        waiting = lonely.enqueue()
        lookout.clock.advance(HOUR)

        lookout.app.outside_watcher().tick()

        assert receiver.titles == ["[critical] no worker of lonely"]
        assert waiting.status() is Status.WAITING, "a watcher runs nothing but deliveries"


def test_two_watchers_tell_it_once(database_url, receiver):
    with looking_out(database_url) as lookout:

        @lookout.app.task
        def lonely() -> None: ...

        lookout.app.alert_to(f"webhook+{receiver.url}")
        lonely.enqueue()
        watchers = [lookout.app.outside_watcher() for _ in range(2)]
        for _ in range(4):
            lookout.clock.advance(MINUTE)
            for watcher in watchers:
                watcher.tick()

    assert receiver.titles == ["[critical] no worker of lonely"]


def test_a_database_that_is_gone_is_told_directly_and_so_is_its_return(
    database_url, database_engine, receiver, monkeypatch
):
    if database_engine == "sqlite":
        pytest.skip("SQLite has no server to lose")
    monkeypatch.setattr(outside, "AWAY_AFTER_SECONDS", 0.0)
    relay = Relay(make_url(database_url).port)
    with relay, closing(App(relay.url(database_url))) as app:
        app.alert_to(f"webhook+{receiver.url}")
        watcher = app.outside_watcher()
        watcher.tick()

        relay.refuse()
        watcher.tick()
        watcher.tick()
        assert receiver.titles == ["[critical] the database does not answer"]
        relay.heal()
        watcher.tick()

    assert receiver.titles[1:] == ["[resolved] the database answers"]
    assert not any("password" in text for text in receiver.texts)


def test_a_heartbeat_of_a_kind_is_sent_only_while_it_succeeds(database_url, receiver):
    with looking_out(database_url) as lookout:
        good: list[bool] = []

        @lookout.app.task
        def offer() -> None:
            if not good:
                raise OSError("away")

        lookout.app.beat_to(receiver.url, kind="offer")
        lookout.app.prepare()
        (shard,) = lookout.app.fleet.shards
        beats = Beats(Site.at(shard, lookout.app.registry), lookout.app.watching)
        offer.enqueue()
        lookout.app.drain()
        beats.tick()
        assert receiver.pings == 0

        good.append(True)
        lookout.clock.advance(5 * MINUTE)
        offer.enqueue()
        lookout.app.drain()
        beats.tick()
        beats.tick()

    assert receiver.pings == 1


def test_a_heartbeat_of_the_workers_is_sent_every_so_often(database_url, receiver):
    with looking_out(database_url) as lookout:
        lookout.app.beat_to(receiver.url, every="1m")
        lookout.app.prepare()
        (shard,) = lookout.app.fleet.shards
        beats = Beats(Site.at(shard, lookout.app.registry), lookout.app.watching)
        for _ in range(3):
            beats.tick()
            lookout.clock.advance(MINUTE)

    assert receiver.pings == 3

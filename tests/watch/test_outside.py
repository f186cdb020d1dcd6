"""Watching from outside: a fleet without workers, a database that is gone, heartbeats."""

import socket
from contextlib import closing

import pytest
from sqlalchemy import make_url

from tests.server.relay import Relay
from tests.wait import eventually
from tests.watch.lookout import HOUR, MINUTE, looking_out
from tests.watch.receiver import Receiver, receiving
from windlass import App, DatabaseUnavailable, Status
from windlass.core.face import Site
from windlass.watch.declare import Watching
from windlass.watch.engine import beat, outside
from windlass.watch.engine.beat import Beats
from windlass.watch.engine.deliver import DELIVER


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
        receiver.status = 500
        watcher.tick()
        receiver.status = 204
        watcher.tick()
        watcher.tick()

    assert receiver.titles[1:] == ["[resolved] the database answers"]
    (first,), (second,) = (body["data"]["alerts"] for body in receiver.bodies)
    assert (first["what"], first["severity"], first["resolved_at"]) == (
        "database",
        "critical",
        None,
    )
    assert second["resolved_at"] > second["raised_at"]
    assert not any("password" in text for text in receiver.texts)


def test_a_database_that_stays_away_is_told_again_and_only_if_the_app_wants(
    database_url, database_engine, receiver, monkeypatch
):
    if database_engine == "sqlite":
        pytest.skip("SQLite has no server to lose")
    monkeypatch.setattr(outside, "AWAY_AFTER_SECONDS", 0.0)
    relay = Relay(make_url(database_url).port)
    with relay, closing(App(relay.url(database_url))) as app:
        app.alert_to(f"webhook+{receiver.url}", every="1ms")
        watcher = app.outside_watcher()
        watcher.tick()
        relay.refuse()
        eventually(lambda: watcher.tick() and len(receiver.bodies) > 1)
        app.alert_on("database", severity="off")
        told = len(receiver.bodies)
        watcher.tick()

    stages = [body["data"]["stage"] for body in receiver.bodies]
    assert stages == ["raised", *["repeated"] * (told - 1)]
    assert len({each["webhook-id"] for each in receiver.headers}) == told


def test_a_lost_database_reaches_the_fallback_once(
    database_url, database_engine, receiver, monkeypatch
):
    if database_engine == "sqlite":
        pytest.skip("SQLite has no server to lose")
    monkeypatch.setattr(outside, "AWAY_AFTER_SECONDS", 0.0)
    gone = "webhook+http://127.0.0.1:1/gone"
    relay = Relay(make_url(database_url).port)
    with relay, receiving(Receiver()) as spare, closing(App(relay.url(database_url))) as app:
        app.alert_to(f"webhook+{receiver.url}", name="all")
        app.alert_to(f"webhook+{spare.url}", name="spare", kinds=["nothing"])
        app.alert_to(gone, name="first", fallback="all")
        app.alert_to(gone, name="second", fallback="spare")
        watcher = app.outside_watcher()
        watcher.tick()
        relay.refuse()
        watcher.tick()
        watcher.tick()

    assert len(receiver.titles) == 1
    assert spare.titles == receiver.titles


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


def test_a_heartbeat_that_hangs_does_not_hold_up_the_others(database_url, receiver, monkeypatch):
    monkeypatch.setattr(beat, "PAUSE_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent, looking_out(database_url) as lookout:
        lookout.app.beat_to(f"http://127.0.0.1:{silent.getsockname()[1]}/hangs")
        lookout.app.beat_to(receiver.url)
        lookout.app.prepare()
        (shard,) = lookout.app.fleet.shards
        beats = Beats(Site.at(shard, lookout.app.registry), lookout.app.watching)

        for _ in range(3):
            beats.tick()
            lookout.clock.advance(MINUTE)

    assert receiver.pings == 3


def test_workers_with_urls_of_their_own_call_each_of_them(database_url, receiver):
    with looking_out(database_url) as lookout, receiving(Receiver()) as other:
        lookout.app.prepare()
        (shard,) = lookout.app.fleet.shards
        for url in (receiver.url, other.url):
            watching = Watching(None)
            watching.beat_to(url)
            Beats(Site.at(shard, lookout.app.registry), watching).tick()

    assert (receiver.pings, other.pings) == (1, 1)


def test_two_watchers_do_not_try_a_delivery_at_once(database_url, receiver):
    receiver.status = 500
    with looking_out(database_url) as lookout:

        @lookout.app.task
        def lonely() -> None: ...

        lookout.app.alert_to(f"webhook+{receiver.url}")
        lonely.enqueue()
        lookout.clock.advance(HOUR)
        first, second = (lookout.app.outside_watcher() for _ in range(2))
        (shard,) = lookout.app.fleet.shards
        lookout.look()
        taken = lookout.app.database.write(lambda found: first._undelivered(found, shard))

        refused = lookout.app.database.write(lambda found: second._undelivered(found, shard))

    assert len(taken) == 1
    assert refused == []


def test_a_delivery_whose_alerts_cannot_be_read_is_not_given_up(shard_urls):
    if shard_urls[1].startswith("sqlite"):
        pytest.skip("SQLite has no server to lose")
    relay = Relay(make_url(shard_urls[1]).port)
    with relay, closing(App(shard_urls[0], relay.url(shard_urls[1]))) as app:
        app.alert_to("webhook+http://127.0.0.1:1/x", name="ops")
        app.prepare()
        relay.refuse()

        with pytest.raises(DatabaseUnavailable, match="the alerts cannot be read"):
            app.own_kinds[DELIVER].function("ops", "raised", [7])

"""An operator changes the schedule of a cron while workers run."""

from contextlib import closing
from datetime import UTC, datetime

import pytest

from tests.core.limit.test_switch import claim_all
from windlass import App, BadSchedule
from windlass.clock import from_datetime, to_datetime
from windlass.core.limit import store as limit_store
from windlass.errors import Unknown
from windlass.operate.cron import operate
from windlass.value.outcome import Succeeded


def at(hour, minute=0):
    return from_datetime(datetime(2026, 1, 1, hour, minute, tzinfo=UTC))


def declare(app, expression="0 * * * *", seen=None, **options):
    @app.cron(expression, **options)
    def tick() -> None:
        """Say the time."""
        if seen is not None:
            seen.append(f"{to_datetime(app.clock.now()):%H:%M}")

    return tick


def change(app, expression=None, every=None):
    wanted = operate.wanted(app.registry, "tick", cron=expression, every=every, tz=None)
    operate.set_(app.fleet, app.registry, "tick", wanted, who="ann")


def shown(app):
    return operate.show(app.fleet, app.registry, "tick").cron


def test_a_schedule_that_is_set_holds_at_once_and_after_a_restart(app, database_url, clock):
    seen = []
    declare(app, seen=seen)
    app.drain()

    change(app, "30 * * * *")

    assert shown(app).next[:2] == [at(0, 30), at(1, 30)]
    with closing(App(database_url, clock=clock)) as again:
        declare(again, seen=seen)
        clock.forward("31m")
        again.drain()
        again.drain()
        assert (seen, shown(again).next[0]) == (["00:31"], at(1, 30))
        assert (shown(again).changed.who, shown(again).declared.cron) == ("ann", "0 * * * *")


def test_a_schedule_that_was_set_is_reset(app):
    declare(app)
    app.drain()
    change(app, every="5m")
    assert str(shown(app).schedule.words) == "every 5m"

    operate.reset(app.fleet, app.registry, "tick")
    app.drain()

    assert (shown(app).changed, shown(app).next[0]) == (None, at(1))


def test_a_new_declaration_takes_the_place_of_what_was_set_for_good(app, database_url, clock):
    declare(app)
    app.drain()
    change(app, "30 * * * *")

    with closing(App(database_url, clock=clock)) as next_release:
        declare(next_release, "0 */2 * * *")
        next_release.drain()
        assert (shown(next_release).changed, shown(next_release).next[0]) == (None, at(2))

    app.drain()
    assert (shown(app).changed, shown(app).next[0]) == (None, at(1))


@pytest.mark.parametrize("is_told", [True, False])
def test_a_cron_that_runs_while_it_is_set_waits_by_the_new_schedule(app, clock, is_told):
    declare(app)
    app.drain()
    clock.forward("61m")
    worker = app.worker()
    worker.in_flight._on_queued = lambda _is_async: None
    worker.heartbeat.join_ring()
    worker.in_flight.add(claim_all(app, worker))
    run = worker.in_flight.advance(None, None, is_async=False)

    change(app, "30 * * * *")
    if is_told:
        worker.switchboard.obey()
    worker.in_flight.end(run, Succeeded())
    worker.finish.flush()
    if not is_told:
        # It ended just before the worker looked.
        assert shown(app).next[0] == at(2)
        worker.switchboard.obey()

    assert shown(app).next[0] == at(1, 30)


@pytest.mark.mostly("sqlite")
def test_a_bad_schedule_is_refused_before_anything_is_written(app):
    declare(app)
    app.drain()

    with pytest.raises(BadSchedule, match="does not have five fields"):
        change(app, "every hour")
    with pytest.raises(BadSchedule, match="shorter than a second"):
        change(app, every="10ms")
    with pytest.raises(BadSchedule, match="not both"):
        change(app, "0 3 * * *", every="1h")
    with pytest.raises(Unknown, match="'none' is not a cron of this app; declared: tick"):
        operate.reset(app.fleet, app.registry, "none")

    assert app.database.read(limit_store.switches).alone("tick").schedule is None


@pytest.mark.mostly("sqlite")
def test_what_cannot_be_read_in_the_switch_counts_as_not_set(app):
    declare(app)
    app.drain()
    change(app, "30 * * * *")
    app.database.write(
        lambda connection: limit_store.change_switch(
            connection,
            app.database.dialect,
            "tick",
            lambda found: type(found)(**{**vars(found), "schedule": '{"cron": 7}'}),
        )
    )

    app.drain()

    assert (shown(app).changed, shown(app).next[0]) == (None, at(1))


@pytest.mark.mostly("sqlite")
def test_a_pause_holds_a_cron_and_its_last_turn_is_told(app, clock):
    declare(app)
    app.drain()
    clock.forward("1h")
    app.drain()
    app.pause("tick", reason="sale")

    found = operate.show(app.fleet, app.registry, "tick")

    assert (found.cron.off, str(found.cron.last.status), found.cron.summary) == (
        True,
        "succeeded",
        "Say the time.",
    )
    assert [(each.succeeded, each.failed) for each in found.results] == [(1, 0)]
    assert operate.listing(app.fleet, app.registry)[0].held_back.startswith("paused by ")

"""What people are told of a sweep without asking: failures, breakers and stragglers."""

import asyncio
from contextlib import closing

import pytest

from tests.rolling.stock import serving
from tests.sweep.manual_worker import SweepHand
from tests.sweep.offer import failing
from tests.wait import eventually, let_tick
from windlass import App, Keys
from windlass.sweep.engine import sweeper as engine
from windlass.sweep.store import range as ranges

# What differs between the databases is proven by the protocol's tests, on all three.
pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def seen():
    return []


def test_failed_items_are_told_at_once_and_when_the_round_ends(app, seen, events):
    failing(app, seen, {3, 8})

    app.drain()

    told = [fields for name, fields in events if name == "range.set_aside"]
    assert sum(fields["items"] for fields in told) == 2
    assert (told[0]["key"], told[0]["error"]) == ("3", "ValueError: no offer for 3")
    (alert,) = app.alerts()
    assert (alert.what, alert.kind) == ("failures", "offer")
    assert "ended with 2 failed items" in alert.text


def test_a_breaker_that_opens_is_told(app, seen, events):
    failing(app, seen, set(range(1, 100)), breaker="5 in a row, 5m", concurrency=1)

    app.drain()

    assert "breaker.opened" in [name for name, _ in events]
    assert [alert.what for alert in app.alerts()] == ["breaker opened"]


def test_a_straggler_is_told_once_by_its_owner(database_url, events, monkeypatch):
    """Another worker is nearly through with its range; ours has minutes to go."""
    monkeypatch.setattr(engine, "STRAGGLER_SECONDS", 0.1)
    app = App(database_url)

    @app.sweep(Keys(1, 10_000), ranges=2, concurrency=1)
    async def offer(_number: int) -> None:
        await asyncio.sleep(0.02)

    with closing(app):
        offer.start()
        hand = SweepHand(app, 10_000)
        owner = hand.claim()
        what = owner.save()
        what.done, what.per_second = 4_990, 100.0
        now = app.clock.now()
        app.database.write(lambda connection: ranges.save(connection, what, sweep="offer", now=now))
        with serving(app) as worker:
            eventually(app.alerts, 15.0, what="an alert")
            monkeypatch.setattr(engine, "STRAGGLER_SECONDS", 0.0)
            let_tick(worker.face_loops[0])
        (alert,) = app.alerts()

    assert (alert.what, alert.kind) == ("straggler", "offer")
    told = [fields for name, fields in events if name == "range.straggles"]
    assert [fields["sweep"] for fields in told] == ["offer"]
    assert told[0]["range"] != owner.claimed.id

"""Who is silent: told by leases that do not change, and never by the time."""

from functools import partial

import pytest

from tests.core.fetch.manual_worker import DEAD_AFTER, Hand, lease_of
from tests.table import workers
from windlass.app import FACES
from windlass.clock import SECOND
from windlass.core.ring import store as ring_store
from windlass.core.ring.heartbeat import LeaseWatch, beat_seconds, mark_dead
from windlass.core.ring.silence import overdue
from windlass.core.ring.store import WorkerView

HOUR = 3600 * SECOND


def view(number: int, lease_until: int) -> WorkerView:
    return WorkerView(number, "host", 1, 0, lease_until, 0, None, None, ["kind"], ["kind"])


@pytest.fixture
def hand(app):
    @app.task
    def work() -> None: ...

    return Hand(app)


def test_a_lease_that_does_not_change_is_told_after_the_time():
    watch = LeaseWatch()

    for second in range(6):
        watch.see([view(1, 100), view(2, 100 + second)], at=float(second))

    assert watch.unchanged(5.0, at=5.0) == {1: 100}
    assert watch.unchanged(5.1, at=5.0) == {}


@pytest.mark.parametrize("step", [-86_400, -3600, -1, 1, 3600, 86_400])
def test_whoever_renews_is_not_silent_whatever_the_clock_does(step):
    watch = LeaseWatch()

    for second in range(20):
        off = step * SECOND if second >= 10 else 0
        watch.see([view(1, second * SECOND + off)], at=float(second))

    assert watch.unchanged(2.0, at=20.0) == {}


def test_a_worker_that_left_is_forgotten():
    watch = LeaseWatch()
    watch.see([view(1, 100)], at=0.0)
    watch.see([], at=1.0)
    watch.see([view(1, 100)], at=2.0)

    assert watch.unchanged(5.0, at=6.0) == {}


def test_a_renewed_lease_is_always_another_one(app, hand):
    before = lease_of(app, hand)
    renew = partial(ring_store.renew, number=hand.id, lease_until=before)

    assert app.database.write(renew)
    between = lease_of(app, hand)
    assert app.database.write(renew)

    assert before != between != lease_of(app, hand)


def test_a_worker_that_renewed_since_it_was_watched_is_alive(app, hand):
    lease = lease_of(app, hand)
    app.clock.advance(HOUR)
    hand.renew()

    now = app.clock.now() + HOUR
    assert mark_dead(app.database, FACES, number=hand.id, now=now, lease=lease) is None
    assert mark_dead(app.database, FACES, number=hand.id, now=now, lease=lease_of(app, hand)) == 0


def test_a_lease_that_lasts_for_hours_by_the_clock_does_not_save_a_dead_worker(app, hand):
    """As after a step back."""
    lease, now = lease_of(app, hand), app.clock.now() - HOUR

    assert mark_dead(app.database, FACES, number=hand.id, now=now, lease=lease) == 0
    assert [row["left_at"] for row in workers(app)] == [now]


def test_a_lease_that_ended_by_the_clock_and_changes_is_not_overdue(app, hand, monkeypatch):
    """As after a step forward: the worker's next heartbeat is by the new time."""
    app.clock.advance(HOUR)
    monkeypatch.setattr("windlass.core.ring.silence.time.sleep", lambda _seconds: hand.renew())

    assert overdue(app.database, app.clock, dead_after=DEAD_AFTER) == {}


def test_a_lease_that_ended_by_the_clock_and_does_not_change_is_overdue(app, hand, monkeypatch):
    app.clock.advance(HOUR)
    slept = []
    monkeypatch.setattr("windlass.core.ring.silence.time.sleep", slept.append)

    found = overdue(app.database, app.clock, dead_after=DEAD_AFTER)

    assert found == {hand.id: lease_of(app, hand)}
    assert slept[0] > beat_seconds(DEAD_AFTER)

"""Downstreams that adapt: one state for all workers, from what each of them saw."""

import pytest

from windlass.core.limit.adapt import store
from windlass.core.limit.permit import store as permit_store
from windlass.operate.downstream import operate
from windlass.value.load.adapt import AdaptState, Ceilings, Interval

CEILINGS = Ceilings(100.0, 20)


def tell(app, seen):
    return app.database.write(
        lambda connection: store.add(
            connection, app.database.dialect, "inventory", seen, lambda _connection: CEILINGS
        )
    )


@pytest.mark.everywhere
def test_what_workers_saw_is_added_up_and_the_last_one_decides_for_all(app, monkeypatch):
    app.prepare()
    first = tell(app, Interval())
    monkeypatch.setattr(store, "SHORTEST", 10**9)
    tell(app, Interval(started=5, overloaded=5, in_flight=2))
    between = app.database.read(permit_store.lowered)
    monkeypatch.setattr(store, "SHORTEST", 0)
    decided = tell(app, Interval(started=5, succeeded=5, latency_sum=0.5, in_flight=3))

    lowered = app.database.read(permit_store.lowered)["inventory"]
    (point,) = app.database.read(lambda connection: store.history(connection, "inventory"))
    assert first == AdaptState(rate=12.5, concurrency=2)
    assert between == {}
    assert decided.rate < 12.5
    assert (lowered.rate, lowered.concurrency) == (decided.rate, decided.concurrency)
    assert point.overloaded_per_second == pytest.approx(point.succeeded_per_second, abs=0.02)


def test_an_interval_that_is_far_too_long_says_nothing(app, monkeypatch):
    app.prepare()
    tell(app, Interval())
    monkeypatch.setattr(store, "LONGEST", -1)

    assert tell(app, Interval(started=9, overloaded=9)).rate == 12.5


def test_a_downstream_that_is_new_begins_low_and_one_that_does_not_adapt_is_as_declared(app):
    for name, adapt in (("inventory", True), ("mail", False)):
        app.downstream(name, rate="80/s", concurrency=16, adapt=adapt)

    views = operate.listing(app.fleet, app.registry, app.clock)
    limits = {view.name: (view.holds.rate, view.holds.concurrency) for view in views}
    assert limits == {"inventory": ("10/s", 2), "mail": ("80/s", 16)}

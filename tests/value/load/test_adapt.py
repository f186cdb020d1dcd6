"""Adapting: the limits follow what a model of another system can bear."""

import pytest

from tests.value.load.other_side import run
from windlass.clock import SECOND
from windlass.value.load.adapt import (
    DEEPEST,
    FOLLOW,
    STAY,
    AdaptState,
    Ceilings,
    Interval,
    adapt,
    begin,
)

NOW = 1_000 * SECOND
BOUNDS = Ceilings(100.0, 20)
CALM = Interval(started=50, succeeded=50, latency_sum=2.5, in_flight=5)


def later(state, bounds, seen, *, times=1):
    """The state after intervals of half a second, one after the other."""
    now = max(NOW, state.hold_until)
    for _ in range(times):
        state = adapt(state, bounds, seen, seconds=0.5, now=now)
        now += SECOND // 2
    return state


# A model of another system


def holds(phases, *, within=0.1, refused=0.02):
    for phase in phases:
        assert 1 - within <= phase.per_second / phase.capacity <= 1 + within, phase
        assert phase.refused_share < refused, phase


@pytest.mark.parametrize("bounds", [Ceilings(175.0), Ceilings(175.0, 20)], ids=["rate", "both"])
def test_a_rate_that_the_other_side_refuses_above_is_found_after_each_change(bounds):
    phases = run("rate", [50, 125, 60, 140], bounds, seed=1, seconds=120, settle=70)

    holds(phases)


def test_a_concurrency_that_the_other_side_refuses_above_is_found():
    phases = run("concurrency", [300, 800], Ceilings(None, 100), seed=1, seconds=90, latency=0.1)

    holds(phases)


def test_a_queue_at_the_other_side_is_noticed_by_its_latency():
    phases = run("queue", [100, 240, 60], Ceilings(350.0, 50), seed=1, seconds=120, settle=70)

    holds(phases)
    assert all(phase.latency_sum / phase.succeeded < 0.25 for phase in phases)


def test_a_capacity_above_the_ceiling_uses_the_ceiling():
    (phase,) = run("rate", [500], Ceilings(100.0, 50), seed=1, seconds=60)

    assert phase.refused == 0
    assert 95 <= phase.per_second <= 101


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    ("kind", "capacities", "bounds", "latency"),
    [
        ("rate", [200, 500, 100, 600], Ceilings(700.0), 0.05),
        ("rate", [200, 500, 100, 600], Ceilings(700.0, 50), 0.05),
        ("concurrency", [300, 800, 400], Ceilings(None, 100), 0.1),
        ("queue", [200, 500, 100, 600], Ceilings(700.0, 100), 0.05),
    ],
)
def test_it_holds_whatever_the_seed(kind, capacities, bounds, latency, seed):
    phases = run(kind, capacities, bounds, seed=seed, seconds=150, settle=75, latency=latency)

    holds(phases)


# The rules


def test_it_begins_well_below_the_ceilings():
    assert begin(BOUNDS) == AdaptState(rate=12.5, concurrency=2)
    assert begin(Ceilings()) == AdaptState()


def test_refused_calls_lower_the_rate_once_and_then_the_workers_follow():
    refused = Interval(started=50, succeeded=30, overloaded=20, latency_sum=1.5, in_flight=5)
    state = AdaptState(rate=100.0, concurrency=20)

    once = later(state, BOUNDS, refused)
    again = adapt(once, BOUNDS, refused, seconds=0.5, now=NOW + FOLLOW // 2)

    assert once.rate == pytest.approx(57.0)
    assert once.rate_limit == 60.0
    assert (again.rate, again.concurrency) == (once.rate, once.concurrency)


def test_a_single_cut_is_not_deeper_than_a_part_and_stays_above_the_floor():
    state = AdaptState(rate=100.0)
    nothing = Interval(started=50, overloaded=50, in_flight=5)

    once = later(state, Ceilings(100.0), nothing)
    for _ in range(20):
        state = later(state, Ceilings(100.0), nothing)

    assert once.rate == pytest.approx(100.0 * DEEPEST)
    assert state.rate == pytest.approx(1.0)


def test_a_few_refused_calls_among_many_change_nothing():
    seen = Interval(started=400, succeeded=399, overloaded=1, latency_sum=20.0, in_flight=5)

    assert later(AdaptState(rate=800.0), Ceilings(800.0), seen).rate == 800.0


def test_nothing_rises_without_work_that_presses():
    idle = Interval(started=2, succeeded=2, latency_sum=0.1, in_flight=1)

    assert later(AdaptState(rate=50.0, concurrency=10), BOUNDS, idle, times=50).rate == 50.0


def test_near_a_known_limit_it_stays_for_a_while_and_then_tries_a_little_more():
    state = AdaptState(rate=95.0, rate_limit=100.0, probe_at=NOW + STAY)
    busy = Interval(started=48, succeeded=48, latency_sum=2.4, in_flight=3)
    bounds = Ceilings(1_000.0)

    before = adapt(state, bounds, busy, seconds=0.5, now=NOW + STAY - 1)
    after = adapt(state, bounds, busy, seconds=0.5, now=NOW + STAY)

    assert before.rate == 95.0
    assert 95.0 < after.rate < 100.0


def test_a_ceiling_that_an_operator_lowers_holds_at_once():
    assert later(AdaptState(rate=100.0, concurrency=20), Ceilings(30.0, 5), CALM).rate == 30.0


def test_how_long_it_asks_to_be_left_alone_is_heeded_if_it_does_nothing():
    refused = Interval(started=50, overloaded=50, in_flight=5, retry_after=30.0)

    state = adapt(AdaptState(rate=100.0), Ceilings(100.0), refused, seconds=0.5, now=NOW)

    assert state.hold_until == NOW + 30 * SECOND


def test_latency_that_stays_is_the_usual_one_after_a_while():
    slow = Interval(started=50, succeeded=50, latency_sum=25.0, in_flight=10)
    state = AdaptState(rate=100.0, usual_latency=0.1)

    for _ in range(12):
        state = later(state, Ceilings(100.0), slow)

    assert state.usual_latency > 0.4
    assert state.slow <= 3


def test_what_workers_saw_is_added_up():
    both = CALM.plus(Interval(started=1, overloaded=1, in_flight=2, retry_after=5.0))

    assert both == Interval(51, 50, 1, 2.5, 7, 5.0)

"""Adapting: the limits follow what a model of another system can bear."""

import pytest
from msgspec.structs import replace

from tests.value.load.other_side import run
from windlass.clock import SECOND
from windlass.value.load.adapt import (
    BELOW,
    DEEPEST,
    FOLLOW,
    STAY,
    AdaptState,
    Ceilings,
    Interval,
    adapt,
    begin,
)
from windlass.value.rate import CAUTION

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
    """It uses the capacity up to a tenth, and few of its calls are refused."""
    for phase in phases:
        assert 1 - within <= phase.share <= 1 + within, phase
        assert phase.refused_share < refused, phase


@pytest.mark.parametrize("bounds", [Ceilings(200.0), Ceilings(200.0, 40), Ceilings(None, 40)])
def test_a_rate_that_the_other_side_refuses_above_is_found_after_each_change(bounds):
    holds(run("rate", [100, 40, 150], bounds, seconds=90, settle=45))


@pytest.mark.parametrize("bounds", [Ceilings(200.0, 40), Ceilings(None, 40)])
def test_a_number_at_once_that_the_other_side_refuses_above_is_found(bounds):
    holds(run("concurrency", [100, 40, 120], bounds, seconds=150, settle=90, latency=0.2))


@pytest.mark.parametrize("bounds", [Ceilings(200.0), Ceilings(200.0, 40), Ceilings(None, 40)])
def test_a_queue_at_the_other_side_is_noticed_by_its_latency(bounds):
    phases = run("queue", [100, 40, 150], bounds, seconds=90, settle=45)

    holds(phases)
    assert all(phase.mean_latency < 0.3 for phase in phases)


def test_a_capacity_above_the_ceiling_uses_the_ceiling():
    (phase,) = run("rate", [500], Ceilings(100.0, 50), seconds=60, settle=30)

    assert phase.refused == 0
    assert phase.succeeded / phase.seconds == pytest.approx(100 * CAUTION, rel=0.02)


def test_a_slow_machine_of_the_callers_is_not_taken_for_a_slow_other_side():
    (phase,) = run("rate", [500], Ceilings(100.0), seconds=60, settle=30, busy=0.1)

    assert phase.succeeded / phase.seconds > 90 * CAUTION


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("bounds", [Ceilings(200.0), Ceilings(200.0, 40), Ceilings(None, 40)])
@pytest.mark.parametrize(
    ("kind", "capacities", "latency"),
    [
        ("rate", [100, 40, 150, 60], 0.1),
        ("queue", [100, 40, 150, 60], 0.1),
        ("concurrency", [100, 60, 120], 0.2),
    ],
)
def test_it_holds_whatever_the_seed(kind, capacities, latency, bounds, seed):
    if kind == "concurrency" and bounds.concurrency is None:
        pytest.skip("calls at once cannot be limited by a rate alone")
    phases = run(
        kind,
        capacities,
        bounds,
        seed=seed,
        seconds=150,
        settle=90,
        latency=latency,
        workers=1 + seed % 4,
    )

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

    assert once.rate == once.rate_limit == pytest.approx(BELOW * 60 / CAUTION)
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


def test_a_raise_that_is_not_borne_goes_back_to_what_was_borne():
    state = AdaptState(rate=50.0, concurrency=10, rate_limit=50.0, concurrency_limit=10)
    busy = Interval(started=24, succeeded=24, latency_sum=1.2, in_flight=5)
    refused = Interval(started=25, succeeded=21, overloaded=4, latency_sum=2.5, in_flight=5)

    raised = later(state, BOUNDS, busy)
    back = adapt(raised, BOUNDS, refused, seconds=0.5, now=raised.hold_until - 1)

    assert raised.rate == pytest.approx(51.0)
    assert BELOW * 50.0 <= back.rate <= 50.0
    assert back.failed_probes == 1
    assert back.probe_at - raised.hold_until > STAY


def test_refused_calls_count_over_intervals_so_that_a_slow_rate_notices_them_too():
    state = AdaptState(rate=4.0)
    one = Interval(started=2, succeeded=1, overloaded=1, latency_sum=0.1, in_flight=1)

    once = later(state, Ceilings(4.0), one)
    twice = later(once, Ceilings(4.0), one)

    assert once.rate == 4.0
    assert twice.rate < 4.0


def test_slow_calls_are_made_fewer_at_once_and_that_is_undone_if_it_helps_nothing():
    slow = Interval(started=50, succeeded=50, latency_sum=25.0, in_flight=50)
    faster = Interval(started=40, succeeded=50, latency_sum=6.0, in_flight=12)
    state = AdaptState(rate=90.0, concurrency=20, rate_limit=100.0, usual_latency=0.1)
    state = replace(state, probe_at=10**18)

    fewer = later(state, BOUNDS, slow)
    helped, undone = later(fewer, BOUNDS, faster), later(fewer, BOUNDS, slow)

    assert (fewer.rate, fewer.concurrency) == (90.0, 12)
    assert (helped.concurrency, helped.slow_latency) == (12, None)
    assert (undone.concurrency, undone.usual_latency) == (20, 0.5)


def test_what_workers_saw_is_added_up():
    both = CALM.plus(Interval(started=1, overloaded=1, in_flight=2, retry_after=5.0))

    assert both == Interval(51, 50, 1, 2.5, 7, 5.0)

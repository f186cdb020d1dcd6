"""Adapting: rate and concurrency that another system can bear, found from how it answers.

One state serves the whole fleet. Each interval has the sum of what all workers saw. Two signs say
that a limit is passed:

* Calls are refused (429, 503, `Overloaded`). What the other side still did then is the best measure
  of what it can bear: both limits go to that, once, and then wait until the workers follow.
  If one of them was just raised, it is to blame, and goes back to what was borne.
* Calls take much longer than they did. Then fewer calls at once are allowed: as many as the work
  needs at the usual latency. If this does not make calls faster, it was not the cause; it is
  undone, and the new latency is the usual one.

Only the limit that work presses against is raised: near a known limit seldom and in small steps;
far from it, or when it turns out to be gone, in steps that double.

The rate limits what the other side does, the concurrency how much it does at once; nobody knows
which of both the other side limits. So both are kept, whatever is declared: calls at once, which
vary, are not left to the rate alone, and calls that are refused at once are not repeated as fast as
the concurrency allows.

Times are in microseconds, latencies in seconds, rates per second.
"""

from __future__ import annotations

from math import ceil, inf, sqrt
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.value.rate import CAUTION

# The share of calls that may be refused, and how many more of them say that the limit is passed.
REFUSED = 0.01
TOO_MANY = 1.5
# How much longer than usual calls take if the limit is passed; in seconds, at least this much.
SLOWER = 1.6
LEAST_SLOWER = 0.02
# How far below what it bore the rate goes, and at most how far at once.
BELOW = 0.96
DEEPEST = 0.3
# How many more calls at once are allowed than the work needs at the usual latency.
ROOM = 1.2
# Calls are faster with fewer of them at once if they take at most this part of the time.
FASTER = 0.9
# How long workers need to follow a change.
FOLLOW = 1_600_000
# How long to stay at a known limit before trying more; longer after tries that failed.
STAY = 6 * SECOND
MOST_FAILS = 3
SMALL_STEP = 0.02
SMALL_RAISE = 0.1
LARGEST_STEP = 0.3
# While no limit is known.
FIRST_STEP = 0.5
# A limit that is passed by this much is no longer there.
GONE = 1.08
# What presses: the share of the rate that is used.
PRESSES = 0.9
# The share of the calls at once; some permits are always on their way between workers.
PRESSES_AT_ONCE = 0.75
# How much more may start when more calls at once are tried.
GUARD = 0.05
LONGEST_REST = 60.0
# How fast the usual latency may rise in a second.
DRIFT = 0.002
FALLS = 0.3
NOISE = 3.0
FEWEST_CALLS = 10
FIRST_SHARE = 0.125
FLOOR_SHARE = 0.01
LEAST_RATE = 0.1


class Ceilings(NamedTuple):
    """The declared ceilings; None: it is not limited."""

    rate: float | None = None
    concurrency: int | None = None

    @property
    def lowest_rate(self) -> float:
        """The floor: a hundredth of the ceiling, so that it is noticed when there is more again."""
        return max(LEAST_RATE, (self.rate or 0.0) * FLOOR_SHARE)


class Interval(msgspec.Struct, gc=False, omit_defaults=True):
    """What was seen in an interval, summed over workers."""

    started: int = 0
    succeeded: int = 0
    overloaded: int = 0
    # Of the calls that succeeded.
    latency_sum: float = 0.0
    # The most calls that were in flight at once.
    in_flight: int = 0
    # The longest time that the other side asked to be left alone.
    retry_after: float = 0.0

    def plus(self, other: Interval) -> Interval:
        """Both together."""
        return Interval(
            self.started + other.started,
            self.succeeded + other.succeeded,
            self.overloaded + other.overloaded,
            self.latency_sum + other.latency_sum,
            self.in_flight + other.in_flight,
            max(self.retry_after, other.retry_after),
        )

    @property
    def ended(self) -> int:
        return self.succeeded + self.overloaded

    @property
    def latency(self) -> float | None:
        """The mean of the calls that succeeded."""
        return self.latency_sum / self.succeeded if self.succeeded else None


class AdaptState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the limits are now, and what is known of the other side; None: it is not limited."""

    rate: float | None = None
    concurrency: int | None = None
    # Nothing is decided before: the workers follow the last change.
    hold_until: int = 0
    # What the other side bore when its limit was last passed.
    rate_limit: float | None = None
    concurrency_limit: int | None = None
    # When more than the known limit may be tried, by how much, and after how many failures.
    probe_at: int = 0
    step: float = SMALL_STEP
    failed_probes: int = 0
    # Whether the last change was a raise: it is to blame if the limit is passed soon after.
    is_raised: bool = False
    # The limits before the last change, which were borne.
    borne_rate: float | None = None
    borne: int | None = None
    # How many calls were refused beyond what is allowed.
    refused: float = 0.0
    # How often in a row the limit was passed.
    passed: int = 0
    usual_latency: float | None = None
    # How long calls took when they were made fewer; None once it is seen whether that helped.
    slow_latency: float | None = None


class AdaptPoint(msgspec.Struct, frozen=True, array_like=True):
    """The limits of a downstream at a moment, and how the other side answered then."""

    at: int
    rate: float | None
    concurrency: int | None
    succeeded_per_second: float
    overloaded_per_second: float
    milliseconds: float | None

    @classmethod
    def of(cls, state: AdaptState, seen: Interval, *, seconds: float, at: int) -> AdaptPoint:
        """The point after an interval."""
        return cls(
            at,
            state.rate,
            state.concurrency,
            round(seen.succeeded / seconds, 2),
            round(seen.overloaded / seconds, 2),
            None if seen.latency is None else round(seen.latency * 1_000, 3),
        )


def begin(bounds: Ceilings) -> AdaptState:
    """The first state: well below the ceilings, to learn how long calls take."""
    rate, concurrency = bounds.rate, bounds.concurrency
    return AdaptState(
        rate=None if rate is None else max(bounds.lowest_rate, rate * FIRST_SHARE),
        concurrency=None if concurrency is None else max(1, int(concurrency * FIRST_SHARE)),
    )


def adapt(
    state: AdaptState, bounds: Ceilings, seen: Interval, *, seconds: float, now: int
) -> AdaptState:
    """The state after an interval of `seconds` that ended `now`."""
    state = _within(state, bounds)
    is_following = now < state.hold_until
    if not seen.ended or (is_following and not state.is_raised):
        return state
    state = replace(state, refused=max(0.0, state.refused + seen.overloaded - REFUSED * seen.ended))
    if state.refused >= TOO_MANY:
        # It was calm before a raise, so refusals in the moment after it come from the raise.
        return _refused(state, bounds, seen, seconds, now)
    if is_following:
        return state
    if state.slow_latency is not None:
        if seen.latency is None or seen.succeeded < FEWEST_CALLS:
            return state
        state = _has_helped(state, seen.latency, state.slow_latency)
    elif _is_slow(state, seen):
        return _slowed(state, bounds, seen, seconds, now)
    state = replace(_learn_latency(state, seen, seconds), passed=0)
    return _pressed(state, bounds, seen, seconds, now)


def _within(state: AdaptState, bounds: Ceilings) -> AdaptState:
    """The state within the bounds, which an operator may have changed."""
    rate, concurrency = state.rate, state.concurrency
    if bounds.rate is not None:
        rate = min(bounds.rate, max(bounds.lowest_rate, rate or bounds.rate))
    if bounds.concurrency is not None:
        concurrency = min(bounds.concurrency, concurrency or bounds.concurrency)
    return replace(state, rate=rate, concurrency=concurrency)


def _is_slow(state: AdaptState, seen: Interval) -> bool:
    usual = state.usual_latency
    if usual is None or seen.latency is None or seen.succeeded < FEWEST_CALLS:
        return False
    # The mean of few calls says less than that of many.
    enough = (SLOWER + NOISE / sqrt(seen.succeeded)) * usual
    return seen.latency > max(enough, usual + LEAST_SLOWER)


def _learn_latency(state: AdaptState, seen: Interval, seconds: float) -> AdaptState:
    """The usual latency falls soon, and rises slowly."""
    if seen.latency is None or seen.succeeded < FEWEST_CALLS:
        return state
    usual = seen.latency if state.usual_latency is None else state.usual_latency
    if seen.latency < usual:
        usual += FALLS * (seen.latency - usual)
    else:
        usual = min(seen.latency, usual * (1 + DRIFT * seconds))
    return replace(state, usual_latency=usual)


def _refused(
    state: AdaptState, bounds: Ceilings, seen: Interval, seconds: float, now: int
) -> AdaptState:
    """Calls were refused: what was just raised goes back, or both limits go to what it bore."""
    bore = seen.succeeded / seconds
    if state.is_raised and not state.passed:
        rate, concurrency = _blamed(state, bore / CAUTION), state.borne
    else:
        rate, concurrency = _lower_rate(state, bounds, bore), state.concurrency
    # Of calls at once it needed fewer on average than there were at most.
    if concurrency is not None or state.passed > 1:
        needed = max(1, ceil(seen.latency_sum / seconds + 0.5))
        fewer = min(needed, (concurrency or needed + 1) - (state.passed > 0))
        concurrency = max(1, fewer)
    lowered = _lowered(state, seen, now, rest=_left_alone(seen, bore))
    return _limited(lowered, rate, concurrency)


def _blamed(state: AdaptState, bore: float) -> float | None:
    """The rate after a raise that was not borne: what was borne before, or what it did just now."""
    rate, before = state.rate, state.borne_rate
    if rate is None or before is None:
        return rate
    if state.concurrency != state.borne:
        # More calls at once were too many. The rate was kept near what was done.
        return min(rate, before)
    # Several raises may have seemed to be borne, from what it had in reserve.
    return min(before, max(bore, BELOW * before))


def _limited(state: AdaptState, rate: float | None, concurrency: int | None) -> AdaptState:
    """These limits, which are all that it bears, as far as is known."""
    return replace(
        state,
        rate=rate,
        rate_limit=rate,
        concurrency=concurrency,
        concurrency_limit=concurrency,
    )


def _lowered(state: AdaptState, seen: Interval, now: int, *, rest: int = 0) -> AdaptState:
    """The limit was passed: wait until the workers follow, and stay there for a while."""
    fails = min(state.failed_probes + 1, MOST_FAILS) if state.is_raised else 0
    return replace(
        state,
        hold_until=now + max(_following(seen), rest),
        probe_at=now + STAY * (1 + fails),
        step=SMALL_STEP,
        is_raised=False,
        failed_probes=fails,
        refused=0.0,
        passed=state.passed + 1,
        slow_latency=None,
    )


def _following(seen: Interval) -> int:
    """How long it takes until the effect of a change is seen."""
    return FOLLOW + int(SECOND * min(LONGEST_REST, seen.latency or 0.0))


def _lower_rate(state: AdaptState, bounds: Ceilings, bore: float) -> float:
    rate = BELOW * bore / CAUTION
    if state.rate is not None:
        rate = max(min(rate, BELOW * state.rate), DEEPEST * state.rate)
    return max(rate, bounds.lowest_rate)


def _slowed(
    state: AdaptState, bounds: Ceilings, seen: Interval, seconds: float, now: int
) -> AdaptState:
    """Calls take longer: allow as many at once as the work needs if they take as long as usual."""
    needed = seen.succeeded / seconds * (state.usual_latency or 0.0)
    fewer = min(ceil(ROOM * needed), state.concurrency or bounds.concurrency or 1_000_000)
    rate = state.borne_rate if state.is_raised else state.rate
    lowered = _limited(_lowered(state, seen, now), rate, fewer)
    return replace(lowered, borne=state.concurrency, slow_latency=seen.latency)


def _has_helped(state: AdaptState, latency: float, before: float) -> AdaptState:
    """Whether fewer calls at once made them faster; if not, it is undone."""
    if latency <= FASTER * before:
        return replace(state, slow_latency=None)
    return replace(
        state,
        concurrency=state.borne,
        concurrency_limit=None,
        usual_latency=latency,
        slow_latency=None,
    )


def _left_alone(seen: Interval, bore: float) -> int:
    """How long it asked to be left alone counts only if it does nothing at all."""
    return 0 if bore else int(min(seen.retry_after, LONGEST_REST) * SECOND)


def _pressed(
    state: AdaptState, bounds: Ceilings, seen: Interval, seconds: float, now: int
) -> AdaptState:
    """Raise the limits that work presses against: the other side bears it."""
    rate, concurrency = state.rate, state.concurrency
    used = seen.started / seconds / CAUTION
    rate_presses = rate is not None and used >= PRESSES * rate
    concurrency_presses = (
        concurrency is not None and seen.in_flight >= PRESSES_AT_ONCE * concurrency
    )
    is_known = state.rate_limit is not None or state.concurrency_limit is not None
    if not (rate_presses or concurrency_presses) or (is_known and now < state.probe_at):
        return state
    step = _step(state) if is_known else FIRST_STEP
    if rate is not None and rate_presses:
        rate = min(bounds.rate or inf, rate * (1 + step))
        # Near a known limit one after the other, and first the one with the smaller steps.
        concurrency_presses &= step > SMALL_STEP
    if (
        concurrency is not None
        and concurrency_presses
        and concurrency < (bounds.concurrency or inf)
    ):
        wanted = max(concurrency + 1, int(concurrency * (1 + step)))
        concurrency = min(bounds.concurrency or wanted, wanted)
        # What is refused at once is repeated at once, so the rate stays near what is done.
        guard = max((1 + max(step, GUARD)) * used, state.rate_limit or bounds.lowest_rate)
        least = (state.rate or 0.0) if rate_presses else 0.0
        rate = guard if rate is None else max(min(rate, guard), least)
    if (rate, concurrency) == (state.rate, state.concurrency):
        return state
    return replace(
        state,
        rate=rate,
        concurrency=concurrency,
        borne_rate=state.rate,
        borne=state.concurrency,
        step=step,
        is_raised=True,
        failed_probes=0 if step > SMALL_STEP else state.failed_probes,
        hold_until=now + _following(seen),
    )


def _step(state: AdaptState) -> float:
    """Steps double while no limit is met."""
    rate, concurrency = state.rate or 0.0, state.concurrency or 0
    is_gone = rate > GONE * (state.rate_limit or inf)
    is_gone |= concurrency > GONE * (state.concurrency_limit or inf) + 1
    return min(LARGEST_STEP, 2 * state.step) if is_gone else SMALL_STEP

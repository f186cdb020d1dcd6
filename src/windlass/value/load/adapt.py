"""Adapting: rate and concurrency that another system can bear, found from how it answers.

One state serves the whole fleet. Each interval has the sum of what all workers saw. A refusal (429,
503, `Overloaded`), or calls that take much longer than they did, say that the limit is passed. What
the other side still did then is the best measure of what it can bear: the limits go a little below
that, once, and then wait until the workers follow. Near a known limit they rise in small steps and
seldom; far from it, or when it turns out to be gone, in steps that double. Nothing rises without
work that presses against it, as that proves nothing.

Times are in microseconds, latencies in seconds, rates per second.
"""

from __future__ import annotations

from enum import IntEnum
from math import ceil, inf, sqrt
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from windlass.clock import SECOND

# The share of calls that may be refused before the limit counts as passed.
REFUSED = 0.01
# A single refusal among so many calls says nothing.
FEW = 4
# How much longer than usual calls take if the limit is passed; in seconds, at least this much.
SLOWER = 1.6
LEAST_SLOWER = 0.02
# A worker needs some time between two runs, too.
LEAST_LATENCY = 0.05
# How far below what it bore the limits go, and at most how far at once.
BELOW = 0.95
DEEPEST = 0.3
# Calls that took longer have to be worked off, too.
BELOW_IF_SLOW = 0.85
WORK_OFF = 0.7
# How long workers need to follow a change.
FOLLOW = 1_600_000
# How long to stay at a known limit before trying more; longer after tries that failed.
STAY = 6 * SECOND
MOST_FAILS = 2
SMALL_STEP = 0.02
LARGEST_STEP = 0.3
# While no limit is known.
FIRST_STEP = 0.5
RECOVER_STEP = 0.15
# A limit that is passed by this much is no longer there.
GONE = 1.08
# What presses: the share of the rate that is used.
PRESSES = 0.8
# What it bears is still the same, although calls are refused: too many at once are to blame.
STILL = 0.7
FEWER = 0.85
# How much more than it bore may start if no rate is declared.
GUARD = 1.06
LONGEST_REST = 60.0
# How fast the usual latency may rise in a second.
DRIFT = 0.01
FALLS = 0.3
NOISE = 3.0
FEWEST_CALLS = 10
# So many times in a row slower, and it is the usual latency.
SLOW_TIMES = 8
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


class Raised(IntEnum):
    """What was raised last: it is to blame if the limit is passed soon after."""

    NOTHING = 0
    RATE = 1
    CONCURRENCY = 2


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
    raised: Raised = Raised.NOTHING
    # The concurrency before it was raised, which was borne.
    borne: int | None = None
    failed_probes: int = 0
    # How often in a row the limit was passed, and how often only by slowness.
    passed: int = 0
    slow: int = 0
    usual_latency: float | None = None


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
    """The state after an interval of so many `seconds`, which ended `now`."""
    state = _within(state, bounds)
    is_refused = seen.overloaded > max(REFUSED * seen.ended, int(seen.ended >= FEW))
    # It was calm before a raise, so refusals in the moment after it come from the raise.
    may_decide = now >= state.hold_until or (is_refused and state.raised)
    if not seen.ended or not may_decide:
        return state
    is_slow = not is_refused and _is_slow(state, seen)
    if is_slow and state.slow >= SLOW_TIMES:
        # It helped nothing to send less: this is how long calls take now.
        state = replace(state, usual_latency=seen.latency, slow=0)
        is_slow = False
    if is_refused or is_slow:
        return _lower(state, bounds, seen, seconds, now, is_slow=is_slow)
    state = replace(_learn_latency(state, seen, seconds), passed=0, slow=0)
    if state.concurrency is not None and seen.in_flight >= state.concurrency:
        return _raise_concurrency(state, bounds, state.concurrency, now)
    if state.rate is not None and seen.started >= PRESSES * state.rate * seconds:
        return _raise_rate(state, bounds, state.rate, now)
    return state


def _within(state: AdaptState, bounds: Ceilings) -> AdaptState:
    """The state within the bounds, which an operator may have changed."""
    rate, concurrency = state.rate, bounds.concurrency
    if bounds.rate is not None:
        rate = bounds.rate if rate is None else min(bounds.rate, max(bounds.lowest_rate, rate))
    if concurrency is not None:
        concurrency = min(concurrency, state.concurrency or concurrency)
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


def _lower(
    state: AdaptState,
    bounds: Ceilings,
    seen: Interval,
    seconds: float,
    now: int,
    *,
    is_slow: bool,
) -> AdaptState:
    """The limit was passed: go below what the other side bore."""
    bore = seen.succeeded / seconds
    fails = min(state.failed_probes + 1, MOST_FAILS) if state.raised else 0
    lowered = replace(
        state,
        hold_until=now + max(FOLLOW, _left_alone(seen, bore)),
        probe_at=now + STAY * (1 + fails),
        step=SMALL_STEP,
        raised=Raised.NOTHING,
        failed_probes=fails,
        passed=state.passed + 1,
        slow=state.slow + 1 if is_slow else 0,
    )
    concurrency = state.concurrency
    if concurrency is not None and state.raised is Raised.CONCURRENCY and not state.passed:
        before = max(1, min(state.borne or concurrency, concurrency - 1))
        if bounds.rate is None:
            lowered = _lower_rate(lowered, bounds, bore, is_slow=is_slow)
        return replace(lowered, concurrency=before, concurrency_limit=before)
    is_known = state.passed and concurrency is not None
    if not (is_known and bore >= STILL * (state.rate_limit or 0.0)):
        lowered = _lower_rate(lowered, bounds, bore, is_slow=is_slow)
    if concurrency is not None:
        # More at once than before may be to blame, although only the rate was raised.
        fewer = _fewer(state, concurrency, seen, bore)
        if state.raised is Raised.RATE and not state.passed:
            return replace(lowered, concurrency=max(fewer, min(concurrency, seen.in_flight - 1)))
        lowered = replace(lowered, concurrency=fewer, concurrency_limit=fewer)
    return lowered


def _lower_rate(state: AdaptState, bounds: Ceilings, bore: float, *, is_slow: bool) -> AdaptState:
    if bounds.rate is None:
        # Only so that refused calls, which end at once, are not followed by ever more of them.
        return replace(state, rate=max(GUARD * bore, bounds.lowest_rate), rate_limit=bore)
    before = bounds.rate if state.rate is None else state.rate
    wanted = min(bore * (BELOW_IF_SLOW if is_slow else BELOW), before * BELOW)
    if is_slow and state.slow > 1:
        # What waits at the other side has to be worked off.
        wanted = min(wanted, max(before * WORK_OFF, bore * DEEPEST))
    rate = max(wanted, before * DEEPEST, bounds.lowest_rate)
    return replace(state, rate=rate, rate_limit=max(bore, rate))


def _fewer(state: AdaptState, concurrency: int, seen: Interval, bore: float) -> int:
    """As many calls at once as the work needed; less each time that this was still too many."""
    if state.passed:
        return max(1, min(concurrency - 1, int(concurrency * FEWER)))
    # A slow call was waiting for most of its time: the usual latency tells what it needs.
    latency = min(seen.latency or inf, state.usual_latency or inf)
    needed = bore * max(LEAST_LATENCY, 0.0 if latency == inf else latency)
    # The number of calls in flight varies by the root of its mean.
    return max(1, min(concurrency, ceil(needed + 2 * sqrt(needed)) + 1))


def _left_alone(seen: Interval, bore: float) -> int:
    """How long it asked to be left alone counts only if it does nothing at all."""
    return 0 if bore else int(min(seen.retry_after, LONGEST_REST) * SECOND)


def _raise_rate(state: AdaptState, bounds: Ceilings, rate: float, now: int) -> AdaptState:
    """Work presses, and the other side bears it: allow more, carefully near its known limit."""
    known, most = state.rate_limit, bounds.rate
    if most is None:
        return replace(state, rate=rate * (1 + LARGEST_STEP), hold_until=now + FOLLOW)
    if known is not None and rate < 0.99 * BELOW * known:
        raised, step = min(rate * (1 + RECOVER_STEP), BELOW * known), state.step
    elif known is not None and now < state.probe_at:
        return state
    else:
        step = FIRST_STEP if known is None else _step(state, is_gone=rate > GONE * known)
        raised = rate * (1 + step)
    raised = min(most, raised)
    if raised <= rate:
        return state
    return _raised(replace(state, rate=raised), Raised.RATE, step, now)


def _raise_concurrency(
    state: AdaptState, bounds: Ceilings, concurrency: int, now: int
) -> AdaptState:
    known, most = state.concurrency_limit, bounds.concurrency or concurrency
    if known is not None and now < state.probe_at:
        return state
    step = FIRST_STEP if known is None else _step(state, is_gone=concurrency > GONE * known + 1)
    raised = min(most, max(concurrency + 1, int(concurrency * (1 + step))))
    if raised <= concurrency:
        # The ceiling is reached: only the rate may rise.
        return state if state.rate is None else _raise_rate(state, bounds, state.rate, now)
    if bounds.rate is None and state.rate is not None:
        state = replace(state, rate=state.rate * raised / concurrency)
    state = replace(state, borne=concurrency, concurrency=raised)
    return _raised(state, Raised.CONCURRENCY, step, now)


def _step(state: AdaptState, *, is_gone: bool) -> float:
    """Steps double while no limit is met."""
    return min(LARGEST_STEP, 2 * state.step) if is_gone else SMALL_STEP


def _raised(state: AdaptState, what: Raised, step: float, now: int) -> AdaptState:
    is_gone = step > SMALL_STEP
    return replace(
        state,
        step=step,
        raised=what,
        failed_probes=0 if is_gone else state.failed_probes,
        hold_until=now + FOLLOW,
    )

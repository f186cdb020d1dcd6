"""Circuit breakers: "20 in a row, 5m" stops a kind after 20 errors in a row, then probes it.

All workers share one row for the breaker of a kind. This module is its state machine: every
function is pure and returns the breaker to store. The caller checks that the row has not changed.

    from      to        when                                  effect
    CLOSED    CLOSED    an ordinary run ended                 errors in a row: 0, or one more
    CLOSED    OPEN      the errors reached the limit          first probe after the pause
    OPEN      PROBING   a worker takes the due probe          it has one pause, at least a minute
    PROBING   PROBING   the prober ran out of time            another worker takes the probe over
    PROBING   OPEN      the prober found nothing to run       the probe is due at once
    PROBING   OPEN      the probe failed                      pause doubled, up to the longest
    PROBING   CLOSED    a probe succeeded, late or not        everything cleared
    any       CLOSED    an operator resumed it                everything cleared

While the breaker is not closed, ordinary runs that end change nothing: they began before it opened.
A failed probe that another worker has taken over changes nothing either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from windlass.errors import BadBreaker, BadDuration
from windlass.value.duration import UNITS, parse_duration
from windlass.value.status import NamedCode

MOST_ERRORS = 1_000_000
USUAL_GROWTH = 32
SHORTEST_PROBE = UNITS["m"]
# Workers read the time at slightly different moments. A step back that is smaller is waited out.
SKEW = 5 * UNITS["s"]
USUAL_LONGEST = UNITS["h"]

_BREAKER = re.compile(r"([0-9]{1,18}) ?in a row ?, ?([^,]+?) ?(?:, ?up to ([^,]+))?", re.IGNORECASE)
_EXAMPLES = '"20 in a row, 5m" or "20 in a row, 5m, up to 1h"'


@dataclass(frozen=True, slots=True)
class BreakerTerms:
    """How many errors in a row open a breaker, and its first and longest pause in microseconds."""

    errors: int
    pause: int
    longest: int


def parse_breaker(given: object, *, what: str = "breaker") -> BreakerTerms:
    """The terms that `given` describes. `what` names the option in the error.

    Without "up to", a pause grows to 32 times its length, but not beyond an hour.
    """
    if not isinstance(given, str):
        raise BadBreaker(f"{what}: cannot read {given!r}; give a string such as {_EXAMPLES}")
    match = _BREAKER.fullmatch(" ".join(given.split()))
    if match is None:
        raise BadBreaker(f"{what}: cannot read {given!r}; write it as {_EXAMPLES}")
    if not 1 <= int(match[1]) <= MOST_ERRORS:
        raise BadBreaker(
            f"{what}: '{match[1]} in a row' is out of bounds; give a number from 1 to {MOST_ERRORS}"
        )
    pause = _read_pause(match[2], what=f"{what}: pause")
    if match[3] is None:
        return BreakerTerms(
            int(match[1]), pause, max(pause, min(USUAL_GROWTH * pause, USUAL_LONGEST))
        )
    longest = _read_pause(match[3], what=f"{what}: longest pause")
    if longest < pause:
        raise BadBreaker(
            f"{what}: 'up to {match[3]}' is shorter than the pause {match[2]!r}; "
            "give a longest pause of at least that"
        )
    return BreakerTerms(int(match[1]), pause, longest)


class BreakerState(NamedCode):
    """The state of a breaker."""

    CLOSED = 0
    OPEN = 1
    PROBING = 2


@dataclass(frozen=True, slots=True)
class Breaker:
    """The stored breaker of a kind. Times and the pause are in microseconds.

    `probe_at` is when the next worker may take the probe, or take it over from the prober.
    """

    state: BreakerState = BreakerState.CLOSED
    errors_in_a_row: int = 0
    opened_at: int | None = None
    probe_at: int | None = None
    pause: int | None = None
    probe_worker: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether ordinary runs are held back."""
        return self.state != BreakerState.CLOSED

    def count(self, terms: BreakerTerms, outcomes: Sequence[bool], now: int) -> Breaker:
        """Count ordinary runs in the order in which they ended; True is a success."""
        if self.is_open:
            return self
        errors = self.errors_in_a_row
        for ok in outcomes:
            errors = 0 if ok else errors + 1
            if errors >= terms.errors:
                return Breaker(
                    state=BreakerState.OPEN,
                    errors_in_a_row=errors,
                    opened_at=now,
                    probe_at=now + terms.pause,
                    pause=terms.pause,
                )
        return replace(self, errors_in_a_row=errors)

    def take_probe(self, worker: int, now: int) -> Breaker | None:
        """`worker` runs the probe; None if the breaker is closed or no probe is due."""
        if not self.is_open:
            return None
        assert self.probe_at is not None
        assert self.pause is not None
        longest = max(self.pause, SHORTEST_PROBE)
        # It is never later than that, unless the clock stepped back since: then it is due.
        if now < self.probe_at <= now + longest + SKEW:
            return None
        # The prober may die, so it has the probe for a limited time.
        until = now + longest
        return replace(self, state=BreakerState.PROBING, probe_at=until, probe_worker=worker)

    def give_back_probe(self, worker: int, now: int) -> Breaker:
        """`worker` found nothing to run; the next worker may probe at once."""
        if not self._is_probed_by(worker):
            return self
        return replace(self, state=BreakerState.OPEN, probe_at=now, probe_worker=None)

    def answer(self, terms: BreakerTerms, worker: int, *, ok: bool, now: int) -> Breaker:
        """The probe of `worker` ended; a success counts even after a takeover."""
        if ok and self.is_open:
            return self.closed()
        if not self._is_probed_by(worker):
            return self
        assert self.pause is not None
        pause = min(self.pause * 2, terms.longest)
        return replace(
            self,
            state=BreakerState.OPEN,
            errors_in_a_row=self.errors_in_a_row + 1,
            probe_at=now + pause,
            pause=pause,
            probe_worker=None,
        )

    def closed(self) -> Breaker:
        """Clear everything: the probe succeeded, or an operator resumed the kind."""
        return CLOSED

    def _is_probed_by(self, worker: int) -> bool:
        return self.state == BreakerState.PROBING and self.probe_worker == worker


def _read_pause(given: str, *, what: str) -> int:
    try:
        return parse_duration(given, what=what)
    except BadDuration as problem:
        raise BadBreaker(str(problem)) from problem


CLOSED = Breaker()

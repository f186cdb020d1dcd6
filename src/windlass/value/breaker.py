"""Circuit breakers: "20 in a row, 5m" holds a kind back after so many errors, then probes it.

The breaker of a kind is one row that all workers share. This module is its state machine: every
function is pure and returns the breaker as it should be stored, and the caller makes sure that the
row has not changed in between.

    from      to        when                                  what else
    CLOSED    CLOSED    an ordinary run ended                 errors in a row: 0, or one more
    CLOSED    OPEN      that made the errors enough           first probe after the pause
    OPEN      PROBING   a worker takes the probe, once due    it has a pause to answer, or a minute
    PROBING   PROBING   its time to answer is over            another worker takes the probe over
    PROBING   OPEN      the prober found nothing to run       the probe is due at once
    PROBING   OPEN      the probe failed                      pause doubled, up to the longest
    PROBING   CLOSED    a probe succeeded, late or not        everything cleared
    any       CLOSED    an operator resumed it                everything cleared

While it is not closed, the ends of ordinary runs change nothing: they began before it opened and
tell nothing new. Nor does the failure of a probe that has been taken over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from windlass.errors import BadBreaker, BadDuration
from windlass.value.duration import UNITS, parse_duration

MOST_ERRORS = 1_000_000
USUAL_GROWTH = 32
SHORTEST_PROBE = UNITS["m"]
USUAL_LONGEST = UNITS["h"]

_BREAKER = re.compile(r"([0-9]{1,18}) ?in a row ?, ?([^,]+?) ?(?:, ?up to ([^,]+))?", re.IGNORECASE)
_EXAMPLES = '"20 in a row, 5m" or "20 in a row, 5m, up to 1h"'


@dataclass(frozen=True, slots=True)
class Terms:
    """How many errors in a row open a breaker, and its first and longest pause in microseconds."""

    errors: int
    pause: int
    longest: int


def parse_breaker(given: object, *, what: str = "breaker") -> Terms:
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
        return Terms(int(match[1]), pause, max(pause, min(USUAL_GROWTH * pause, USUAL_LONGEST)))
    longest = _read_pause(match[3], what=f"{what}: longest pause")
    if longest < pause:
        raise BadBreaker(
            f"{what}: 'up to {match[3]}' is shorter than the pause {match[2]!r}; "
            "give a longest pause of at least that"
        )
    return Terms(int(match[1]), pause, longest)


class State(IntEnum):
    """The state of a breaker. In text it is its lower-case name."""

    CLOSED = 0
    OPEN = 1
    PROBING = 2

    def __str__(self) -> str:
        return self.name.lower()

    def __format__(self, specification: str) -> str:
        return format(str(self), specification)


@dataclass(frozen=True, slots=True)
class Breaker:
    """The breaker of a kind as its row has it. Times and the pause are in microseconds.

    `probe_at` is when the next worker may take the probe: the first one while the breaker is open,
    one that takes over while it is probing.
    """

    state: State = State.CLOSED
    errors_in_a_row: int = 0
    opened_at: int | None = None
    probe_at: int | None = None
    pause: int | None = None
    probe_worker: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether ordinary runs are held back."""
        return self.state != State.CLOSED

    def count(self, terms: Terms, outcomes: Sequence[bool], now: int) -> Breaker:
        """Ordinary runs ended in this order, True for a success."""
        if self.is_open:
            return self
        errors = self.errors_in_a_row
        for ok in outcomes:
            errors = 0 if ok else errors + 1
            if errors >= terms.errors:
                return Breaker(
                    state=State.OPEN,
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
        if now < self.probe_at:
            return None
        # The prober may die, so the probe is its own for a while only.
        until = now + max(self.pause, SHORTEST_PROBE)
        return replace(self, state=State.PROBING, probe_at=until, probe_worker=worker)

    def give_back_probe(self, worker: int, now: int) -> Breaker:
        """`worker` found nothing to run; the next one may probe at once."""
        if not self._is_probed_by(worker):
            return self
        return replace(self, state=State.OPEN, probe_at=now, probe_worker=None)

    def answer(self, terms: Terms, worker: int, *, ok: bool, now: int) -> Breaker:
        """The probe of `worker` ended; a success counts even if it was taken over meanwhile."""
        if ok and self.is_open:
            return self.closed()
        if not self._is_probed_by(worker):
            return self
        assert self.pause is not None
        pause = min(self.pause * 2, terms.longest)
        return replace(
            self,
            state=State.OPEN,
            errors_in_a_row=self.errors_in_a_row + 1,
            probe_at=now + pause,
            pause=pause,
            probe_worker=None,
        )

    def closed(self) -> Breaker:
        """All is forgotten: the probe succeeded, or an operator resumed it."""
        return CLOSED

    def _is_probed_by(self, worker: int) -> bool:
        return self.state == State.PROBING and self.probe_worker == worker


def _read_pause(given: str, *, what: str) -> int:
    try:
        return parse_duration(given, what=what)
    except BadDuration as problem:
        raise BadBreaker(str(problem)) from problem


CLOSED = Breaker()

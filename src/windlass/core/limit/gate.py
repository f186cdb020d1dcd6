"""The gate before every claim: how many rows of a kind may be taken now.

A rate allows one row for each reserved moment. An open breaker allows one row, the probe, after its
pause.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from windlass.core.limit.breaker import Breakers
from windlass.core.limit.rate import Rates
from windlass.core.run.in_flight import InFlight


class Allowed(NamedTuple):
    """How many rows may be taken, and whether the row is the probe of a breaker."""

    most: int
    is_probe: bool = False


class Gate:
    """A worker's gate: a claim asks it before it takes rows, and tells it how many it took."""

    def __init__(self, in_flight: InFlight, rates: Rates, breakers: Breakers) -> None:
        self._in_flight = in_flight
        self._rates = rates
        self._breakers = breakers

    def is_free(self, kind: str) -> bool:
        """Whether nothing holds the kind back, and it has no rate."""
        is_open = self._in_flight.loads[kind].is_open and not self._breakers.is_open(kind)
        return is_open and not self._rates.has(kind)

    def is_held(self, kind: str) -> bool:
        """Whether a switch, a window or a breaker lets no row of the kind start now."""
        if not self._in_flight.loads[kind].is_open:
            return True
        return self._breakers.is_open(kind) and not self._breakers.is_probe_due(kind)

    def allow(self, kind: str, wanted: int) -> Allowed:
        """How many of the `wanted` rows may be taken now."""
        if not self._in_flight.loads[kind].is_open:
            return Allowed(0)
        if self._breakers.is_open(kind):
            # The rate does not matter: there were no calls for a while, and a probe is one.
            is_probe = self._breakers.take_probe(kind)
            return Allowed(int(is_probe), is_probe=is_probe)
        if self._rates.has(kind):
            return Allowed(min(wanted, self._rates.available(kind)))
        return Allowed(wanted)

    def took(self, kind: str, allowed: Allowed, count: int) -> None:
        """A claim took `count` rows, which may be none."""
        if count:
            self._rates.spend(kind, count)
        elif allowed.is_probe:
            self._breakers.give_back_probe(kind)

    def seconds_until(self, kinds: Collection[str]) -> float | None:
        """Seconds until one of `kinds` may start a row, if only its rate holds it back."""
        return min(
            (
                self._rates.seconds_until_one(kind)
                for kind in kinds
                if self._rates.has(kind) and not self._breakers.is_open(kind)
            ),
            default=None,
        )

"""The gate before every claim: how many rows of a kind may be taken now.

A rate lets as many through as there are moments to start at; an open breaker lets one through, the
probe, when its pause is over.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

from windlass.core.limit.breaker import Breakers
from windlass.core.limit.rate import Rates
from windlass.core.run.in_flight import InFlight


class Allowed(NamedTuple):
    """How many rows may be taken, and whether the one is the probe of a breaker."""

    most: int
    is_probe: bool = False


class Gate(Protocol):
    """What a claim asks before it takes rows, and tells after it did."""

    def is_free(self, kind: str) -> bool:
        """Whether nothing holds the kind back, nor counts what starts of it."""
        ...

    def is_held(self, kind: str) -> bool:
        """Whether a switch, a window or a breaker lets nothing of the kind begin now."""
        ...

    def allow(self, kind: str, wanted: int) -> Allowed:
        """How many of the `wanted` rows may be taken now."""
        ...

    def took(self, kind: str, allowed: Allowed, count: int) -> None:
        """So many were taken: none, if there were none after all."""
        ...

    def seconds_until(self, kinds: Collection[str]) -> float | None:
        """How long until one of `kinds` may go on, if only its rate holds it back."""
        ...


class SwitchGate:
    """The gate of a worker, set by its switchboard."""

    def __init__(self, in_flight: InFlight, rates: Rates, breakers: Breakers) -> None:
        self._in_flight = in_flight
        self._rates = rates
        self._breakers = breakers

    def is_free(self, kind: str) -> bool:
        is_open = self._in_flight.loads[kind].is_open and not self._breakers.is_open(kind)
        return is_open and not self._rates.has(kind)

    def is_held(self, kind: str) -> bool:
        if not self._in_flight.loads[kind].is_open:
            return True
        return self._breakers.is_open(kind) and not self._breakers.is_probe_due(kind)

    def allow(self, kind: str, wanted: int) -> Allowed:
        if not self._in_flight.loads[kind].is_open:
            return Allowed(0)
        if self._breakers.is_open(kind):
            # A probe is one call, and the rate has seen none for a while.
            is_probe = self._breakers.take_probe(kind)
            return Allowed(int(is_probe), is_probe=is_probe)
        if self._rates.has(kind):
            return Allowed(min(wanted, self._rates.available(kind)))
        return Allowed(wanted)

    def took(self, kind: str, allowed: Allowed, count: int) -> None:
        if count:
            self._rates.spend(kind, count)
        elif allowed.is_probe:
            self._breakers.give_back_probe(kind)

    def seconds_until(self, kinds: Collection[str]) -> float | None:
        return min(
            (
                self._rates.seconds_until_one(kind)
                for kind in kinds
                if self._rates.has(kind) and not self._breakers.is_open(kind)
            ),
            default=None,
        )

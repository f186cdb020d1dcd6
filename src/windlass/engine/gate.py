"""The gate before every claim: how many rows of a kind may be taken now.

A rate lets as many through as there are moments to start at; an open breaker lets one through, the
probe, when its pause is over.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from windlass.engine.breaker import Breakers
from windlass.engine.hold import Hold
from windlass.engine.rate import Rates


class Gate(Protocol):
    """What a claim asks before it takes rows, and tells after it did."""

    def is_free(self, kind: str) -> bool:
        """Whether nothing holds the kind back, nor counts what starts of it."""
        ...

    def allow(self, kind: str, wanted: int) -> int:
        """How many of the `wanted` rows may be taken now."""
        ...

    def took(self, kind: str, count: int) -> None:
        """So many were taken: none, if there were none after all."""
        ...

    def seconds_until(self, kinds: Collection[str]) -> float | None:
        """How long until one of `kinds` may go on, if only its rate holds it back."""
        ...


class SwitchGate:
    """The gate of a worker, set by its switchboard."""

    def __init__(self, hold: Hold, rates: Rates, breakers: Breakers) -> None:
        self._hold = hold
        self._rates = rates
        self._breakers = breakers

    def is_free(self, kind: str) -> bool:
        is_open = self._hold.loads[kind].is_open and not self._breakers.is_open(kind)
        return is_open and not self._rates.has(kind)

    def allow(self, kind: str, wanted: int) -> int:
        if self._breakers.is_open(kind):
            # A probe is one call, and the rate has seen none for a while.
            load = self._hold.loads[kind]
            if load.is_probing:
                return 0
            load.is_probing = self._breakers.take_probe(kind)
            return int(load.is_probing)
        return min(wanted, self._rates.available(kind)) if self._rates.has(kind) else wanted

    def took(self, kind: str, count: int) -> None:
        load = self._hold.loads[kind]
        if count:
            self._rates.spend(kind, count)
        elif load.is_probing:
            load.is_probing = False
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

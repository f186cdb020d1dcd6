"""Rates: "700/s", "40/m", "1000/h" as a number per second, and the bucket that spends them."""

from __future__ import annotations

import re

from windlass.errors import BadRate

PER = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_RATE = re.compile(r"(\d+(?:\.\d+)?)/(s|m|h|d)")
BURST_SECONDS = 0.1


def parse_rate(given: str, *, what: str = "rate") -> float:
    """How many a second `given` allows."""
    match = _RATE.fullmatch(given.replace(" ", "")) if isinstance(given, str) else None
    if match is None:
        raise BadRate(f'{what}: cannot read {given!r}; write it as "700/s", "40/m" or "1000/h"')
    per_second = float(match[1]) / PER[match[2]]
    if per_second <= 0:
        raise BadRate(f"{what}: {given!r} lets nothing through; give a positive rate")
    return per_second


class Allowance:
    """A token bucket: how many may start now, given a rate and what has started before.

    It holds at most a tenth of a second of the rate (one at least), so a pause is not followed by
    a burst.
    """

    def __init__(self, per_second: float, now: float) -> None:
        self.per_second = per_second
        self._tokens = 1.0
        self._filled_at = now

    def available(self, now: float, *, share: float = 1.0) -> int:
        """How many may start at `now`, if `share` of the rate is ours."""
        per_second = self.per_second * share
        most = max(1.0, per_second * BURST_SECONDS)
        elapsed = max(0.0, now - self._filled_at)
        self._tokens = min(most, self._tokens + elapsed * per_second)
        self._filled_at = now
        return int(self._tokens)

    def spend(self, count: int) -> None:
        """Note that `count` were taken."""
        self._tokens -= count

    def seconds_until_one(self, *, share: float = 1.0) -> float:
        """How long until one more may start, as of the last `available`."""
        return max(0.0, 1.0 - self._tokens) / (self.per_second * share)

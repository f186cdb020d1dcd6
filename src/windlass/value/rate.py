"""Rates: "700/s", "40/m", "1000/h" as a number per second, and how all workers share one.

A rate is a promise to the other side, kept by all workers together: not above it over any two
seconds, and near it while there is work. So each start has its moment on one clock that all share.
A worker reserves a short stretch of such moments, a grant, and starts one task at each; what it
does not use in time is lost, so a pause is never followed by a burst.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from windlass.errors import BadRate

PER = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_RATE = re.compile(r"(\d+(?:\.\d+)?)/(s|m|h|d)")
LONGEST_TEXT = 50
SLOWEST = 1 / (10 * 366 * 86_400)

# Starts come up to a moment late, and then two stretches overlap: this leaves room for it.
CAUTION = 0.95
SLICE = 250_000
LATE = 80_000
HORIZON = 1_000_000


def parse_rate(given: str, *, what: str = "rate") -> float:
    """How many a second `given` allows."""
    match = _RATE.fullmatch(given.replace(" ", "")) if isinstance(given, str) else None
    if match is None or len(given) > LONGEST_TEXT:
        raise BadRate(f'{what}: cannot read {given!r}; write it as "700/s", "40/m" or "1000/h"')
    per_second = float(match[1]) / PER[match[2]]
    if per_second < SLOWEST:
        raise BadRate(f"{what}: {given!r} lets nothing through; give at least one in ten years")
    return per_second


class Reserved(NamedTuple):
    """A stretch that was reserved, or none; and the first moment that nobody has now."""

    grant: Grant | None
    next_at: int

    def shifted(self, by: int) -> Reserved:
        """The same on another clock."""
        grant = self.grant
        moved = None if grant is None else grant._replace(begin=grant.begin + by)
        return Reserved(moved, self.next_at + by)


class Grant(NamedTuple):
    """`starts` moments to start at, from `begin` on and `interval` apart, in microseconds."""

    begin: int
    starts: int
    interval: float

    @property
    def end(self) -> int:
        return self.begin + round(self.starts * self.interval)


def reserve(next_at: int, *, per_second: float, now: int) -> Reserved:
    """Take the stretch from `next_at` on, the first moment that nobody has, unless it is far off.

    Nobody holds what is far off: whoever is there when it comes near has it.
    """
    interval = 1_000_000 / (per_second * CAUTION)
    begin = max(next_at, now)
    if begin > now + HORIZON:
        return Reserved(None, begin)
    grant = Grant(begin, max(1, int(SLICE / interval)), interval)
    return Reserved(grant, grant.end)


class Pace:
    """The grants that a worker has for one kind, and how much of them is used."""

    def __init__(self) -> None:
        self._grants: list[Grant] = []
        self._used = 0
        self._debt = 0

    def available(self, now: int) -> int:
        """How many may start at `now`; what was not used in time is lost."""
        while self._grants:
            grant = self._grants[0]
            late = max(LATE, grant.interval / 2)
            lost = int((now - late - grant.begin) // grant.interval) + 1
            self._used = max(self._used, min(lost, grant.starts))
            if self._used < grant.starts:
                begun = min(grant.starts, int((now - grant.begin) // grant.interval) + 1)
                return max(0, begun - self._used)
            self._next_grant()
        return 0

    def spend(self, count: int) -> None:
        """Note that `count` start. More than were available are made up for."""
        self._debt += count
        while self._grants and self._debt:
            paid = min(self._debt, self._grants[0].starts - self._used)
            self._used += paid
            self._debt -= paid
            if self._used < self._grants[0].starts:
                return
            self._next_grant()

    def add(self, grant: Grant) -> None:
        """Have another grant, after those before it."""
        self._grants.append(grant)
        self.spend(0)

    def is_running_out(self, now: int) -> bool:
        """Whether it is time to ask for the next grant."""
        return not self._grants or self._grants[-1].end - now < SLICE // 2

    def next_at(self) -> int | None:
        """The moment of the next start; None without a grant."""
        if not self._grants:
            return None
        grant = self._grants[0]
        return grant.begin + round(self._used * grant.interval)

    def _next_grant(self) -> None:
        del self._grants[0]
        self._used = 0


def rate_text(per_second: float) -> str:
    """A rate for people."""
    for unit, seconds in PER.items():
        number = per_second * seconds
        if number >= 1 or unit == "d":
            return f"{number:,.0f}/{unit}" if number >= 100 else f"{number:.3g}/{unit}"
    raise AssertionError(per_second)

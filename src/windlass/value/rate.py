"""Rates: "700/s", "40/m", "1000/h" as a number per second, and how workers share a rate.

All workers together stay within a rate over any two seconds, and come near it while there is work.
So each start has its moment on one shared clock. A worker reserves a short series of moments, a
grant, and starts one task at each. Unused moments are lost, so no burst follows a pause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from windlass.errors import BadRate

PER = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_RATE = re.compile(r"(\d+(?:\.\d+)?)/(s|m|h|d)")
LONGEST_TEXT = 50
SLOWEST = 1 / (10 * 366 * 86_400)

# Late starts can make two grants overlap: this margin allows for it.
CAUTION = 0.95
SLICE = 250_000
LATE = 80_000
HORIZON = 1_000_000
# Rows are fetched this long before the moments of their starts, so that one read serves many.
AHEAD = 250_000


def parse_rate(given: str, *, what: str = "rate") -> float:
    """How many starts per second `given` allows."""
    match = _RATE.fullmatch(given.replace(" ", "")) if isinstance(given, str) else None
    if match is None or len(given) > LONGEST_TEXT:
        raise BadRate(f'{what}: cannot read {given!r}; write it as "700/s", "40/m" or "1000/h"')
    per_second = float(match[1]) / PER[match[2]]
    if per_second < SLOWEST:
        raise BadRate(f"{what}: {given!r} is too slow; give at least one in ten years")
    return per_second


class Reserved(NamedTuple):
    """The reserved grant, if any, and the first moment that is still free."""

    grant: Grant | None
    next_at: int

    def shifted(self, by: int) -> Reserved:
        """The same on a clock that is `by` microseconds ahead."""
        grant = self.grant
        moved = None if grant is None else grant._replace(begin=grant.begin + by)
        return Reserved(moved, self.next_at + by)


class Grant(NamedTuple):
    """`starts` moments from `begin` on, `interval` microseconds apart."""

    begin: int
    starts: int
    interval: float

    @property
    def end(self) -> int:
        return self.begin + round(self.starts * self.interval)


def reserve(next_at: int, *, per_second: float, now: int, most: int | None = None) -> Reserved:
    """Reserve moments from `next_at`, the first free one, unless that is far in the future.

    Moments in the far future stay free for the workers that are alive then. At most `most` are
    reserved.
    """
    interval = 1_000_000 / (per_second * CAUTION)
    # No reservation ends later than this, unless the clock stepped back since.
    latest = now + HORIZON + max(SLICE, int(interval))
    begin = max(min(next_at, latest), now)
    if begin > now + HORIZON:
        return Reserved(None, begin)
    starts = max(1, int(SLICE / interval))
    grant = Grant(begin, starts if most is None else min(most, starts), interval)
    return Reserved(grant, grant.end)


def late_after(interval: float) -> float:
    """A start that is later than this after its moment needs another moment."""
    return max(LATE, interval / 2)


class Pace:
    """The grants that a worker has for one kind, and how much of them is used."""

    def __init__(self) -> None:
        self._grants: list[Grant] = []
        self._used = 0
        self._debt = 0
        # Moments that were taken and not used.
        self._returned: list[int] = []
        self._late = float(LATE)

    def available(self, now: int) -> int:
        """How many tasks may start at `now`; moments that passed unused are lost."""
        return len(self.moments(now, until=now))

    def moments(self, now: int, *, until: int, most: int | None = None) -> list[int]:
        """The first free moments up to `until`; those that passed unused are lost."""
        self._lose(now)
        found: list[int] = []
        used = self._used
        for grant in self._grants:
            last = min(grant.starts, int((until - grant.begin) // grant.interval) + 1)
            if most is not None:
                last = min(last, used + most - len(found))
            found += [grant.begin + round(each * grant.interval) for each in range(used, last)]
            if last < grant.starts:
                break
            used = 0
        return found

    def take(self, now: int, *, until: int, most: int) -> list[int]:
        """Take up to `most` moments up to `until`; nobody else gets them."""
        back = sorted(moment for moment in self._returned if moment >= now - self._late)
        found = [moment for moment in back if moment <= until][:most]
        self._returned = back[len(found) :]
        more = self.moments(now, until=until, most=most - len(found))
        self.spend(len(more))
        return found + more

    def give_back(self, moments: Iterable[int]) -> None:
        """No run starts at these moments, which were taken."""
        self._returned += moments

    def spend(self, count: int) -> None:
        """Use moments for `count` starts; later moments pay for starts that had none."""
        self._debt += count
        while self._grants and self._debt:
            paid = min(self._debt, self._grants[0].starts - self._used)
            self._used += paid
            self._debt -= paid
            if self._used < self._grants[0].starts:
                return
            self._next_grant()

    def add(self, grant: Grant) -> None:
        """Append a grant."""
        self._grants.append(grant)
        self._late = late_after(grant.interval)
        self.spend(0)

    def is_running_out(self, now: int) -> bool:
        """Whether it is time to ask for the next grant."""
        return not self._grants or self._grants[-1].end - now < SLICE // 2 + AHEAD

    def next_at(self) -> int | None:
        """When the next task may start; None without a grant."""
        found = list(self._returned)
        if self._grants:
            grant = self._grants[0]
            found.append(grant.begin + round(self._used * grant.interval))
        return min(found, default=None)

    def _lose(self, now: int) -> None:
        """Give up the moments that passed unused."""
        while self._grants:
            grant = self._grants[0]
            lost = int((now - late_after(grant.interval) - grant.begin) // grant.interval) + 1
            self._used = max(self._used, min(lost, grant.starts))
            if self._used < grant.starts:
                return
            self._next_grant()

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

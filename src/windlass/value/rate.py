"""Rates: "700/s", "40/m", "1000/h" as a number per second, and how workers share a rate.

All workers together stay within a rate over any two seconds, and come near it while there is work.
So each start has its moment on one shared clock. A worker reserves a short series of moments, a
grant, and starts one task at each. Unused moments are lost, so no burst follows a pause.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from windlass.errors import BadRate

PER = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_RATE = re.compile(r"(\d+(?:\.\d+)?)/(s|m|h|d)")
LONGEST_TEXT = 50
SLOWEST = 1 / (10 * 366 * 86_400)

# Late starts can make two grants overlap: this margin allows for it.
CAUTION = 0.95
# How much a worker reserves that may not need it all. One that uses all of it reserves more, up to
# the horizon, so that one reservation and one read a second are enough.
SLICE = 250_000
LATE = 95_000
# Nobody reserves a moment that is further away.
HORIZON = 1_500_000
# More is reserved and fetched this long before the last reserved moment.
IN_TIME = 300_000


def parse_rate(given: str, *, what: str = "rate") -> float:
    """How many starts per second `given` allows."""
    match = _RATE.fullmatch(given.replace(" ", "")) if isinstance(given, str) else None
    if match is None or len(given) > LONGEST_TEXT:
        raise BadRate(f'{what}: cannot read {given!r}; write it as "700/s", "40/m" or "1000/h"')
    per_second = float(match[1]) / PER[match[2]]
    if per_second < SLOWEST:
        raise BadRate(f"{what}: {given!r} is too slow; give at least one in ten years, or pause it")
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

    @property
    def moments(self) -> list[int]:
        return [self.begin + round(each * self.interval) for each in range(self.starts)]

    def at(self, per_second: float) -> list[int]:
        """Its moments at another rate.

        Faster: they lie closer, and none comes after its last moment, as the next grant may begin
        soon after it. Slower: some of them are left out. Time is cut into intervals of the slower
        rate, and only the first moment in each stays. So all workers together keep one for each
        interval, although each knows only its own grants.
        """
        interval = interval_of(per_second)
        if interval <= self.interval:
            length = (self.starts - 1) * self.interval
            # The small number makes up for rounding if the rate is the same.
            return Grant(self.begin, int(length / interval + 1e-6) + 1, interval).moments
        return [
            moment
            for moment in self.moments
            if moment // interval > (moment - self.interval) // interval
        ]


def interval_of(per_second: float) -> float:
    """Microseconds between two moments."""
    return 1_000_000 / (per_second * CAUTION)


def reserve(
    next_at: int,
    *,
    per_second: float,
    now: int,
    length: int = SLICE,
    most: int | None = None,
) -> Reserved:
    """Reserve moments from `next_at`, the first free one, unless that is far in the future.

    Moments in the far future stay free for the workers that are alive then. At most `length`
    microseconds and at most `most` moments are reserved; at least one.
    """
    interval = interval_of(per_second)
    # No reservation ends later than this, unless the clock stepped back since.
    latest = now + HORIZON + int(interval) + 1
    begin = max(min(next_at, latest), now)
    if begin > now + HORIZON:
        return Reserved(None, begin)
    starts = max(1, int(min(length, now + HORIZON - begin) / interval))
    grant = Grant(begin, starts if most is None else min(most, starts), interval)
    return Reserved(grant, grant.end)


def free_from(next_at: int, *, before: float, after: float) -> int:
    """The first free moment when a rate changes, in place of `next_at`.

    The last reserved moment was one interval of the rate `before` earlier. The next one comes one
    interval of the rate `after` later than that.
    """
    return next_at - round(interval_of(before) - interval_of(after))


def late_after(interval: float) -> float:
    """A start that is later than this after its moment needs another moment."""
    return max(LATE, interval / 2)


class Pace:
    """The moments that a worker has for one kind, and how much of them is used."""

    def __init__(self) -> None:
        # What was reserved, until it has passed, and the rate to use it at, if that has changed.
        self._grants: list[Grant] = []
        self._per_second: float | None = None
        # The free moments, in order.
        self._free: list[int] = []
        self._debt = 0
        self._late = float(LATE)
        self._length = SLICE

    @property
    def length(self) -> int:
        """How much to reserve, in microseconds: more and more while all of it is used."""
        return self._length

    def available(self, now: int) -> int:
        """How many tasks may start at `now`; moments that passed unused are lost."""
        self._lose(now)
        return bisect_right(self._free, now)

    def take(self, now: int, *, until: int, most: int) -> list[int]:
        """Take up to `most` moments up to `until`; nobody else gets them."""
        self._lose(now)
        count = min(most, bisect_right(self._free, until))
        found, self._free = self._free[:count], self._free[count:]
        return found

    def give_back(self, moments: Iterable[int]) -> None:
        """No run starts at these moments, which were taken."""
        back = list(moments)
        if back:
            self._length = SLICE
            self._free = sorted([*self._free, *back])

    def spend(self, count: int) -> None:
        """Use moments for `count` starts; later moments pay for starts that had none."""
        paid = min(self._debt + count, len(self._free))
        self._debt += count - paid
        del self._free[:paid]

    def add(self, grant: Grant) -> None:
        """Append a grant."""
        if not self._free:
            self._length = min(2 * self._length, HORIZON)
        self._grants.append(grant)
        self._free += grant.moments
        self._late = late_after(grant.interval)
        self.spend(0)

    def ask_at(self, chance: float = 0.5) -> int:
        """When to reserve more, if all is used by then.

        `chance`, from 0 to 1, varies it: or one of several workers could always come last.
        """
        return self._grants[-1].end - int(IN_TIME * (0.5 + chance)) if self._grants else 0

    def has(self, count: int) -> bool:
        """Whether it has that many free moments."""
        return len(self._free) >= count

    def next_at(self) -> int | None:
        """The first free moment; None without one."""
        return self._free[0] if self._free else None

    def at(self, per_second: float, now: int) -> Pace:
        """The moments after `now` at another rate; all are free, also those that were taken.

        Moments up to `now` count as used.
        """
        pace, interval = Pace(), interval_of(per_second)
        used = [each for each in self._moments(self._per_second) if each <= now]
        begin = max(used) + interval if used else now
        pace._grants = [grant for grant in self._grants if grant.end > now]
        pace._per_second = per_second
        pace._free = [each for each in pace._moments(per_second) if each > now and each >= begin]
        pace._late, pace._length, pace._debt = late_after(interval), self._length, self._debt
        pace.spend(0)
        return pace

    def _moments(self, per_second: float | None) -> list[int]:
        """All moments of its grants, at a rate or as they were reserved."""
        return sorted(
            moment
            for grant in self._grants
            for moment in (grant.moments if per_second is None else grant.at(per_second))
        )

    def _lose(self, now: int) -> None:
        """Give up the moments that passed unused."""
        lost = bisect_right(self._free, now - self._late)
        if lost:
            self._length = SLICE
            del self._free[:lost]
        self._grants = [grant for grant in self._grants if grant.end > now]


def rate_text(per_second: float) -> str:
    """A rate for people."""
    for unit, seconds in PER.items():
        number = per_second * seconds
        if number >= 1 or unit == "d":
            return f"{number:,.0f}/{unit}" if number >= 100 else f"{number:.3g}/{unit}"
    raise AssertionError(per_second)

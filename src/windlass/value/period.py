"""Recurring rows: when a row is due again after a visit.

A row is due again one period after its last visit, successful or not. With a tick, due rows wait
for the next tick: a worker takes only rows that were due at the last tick.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from windlass.clock import SECOND
from windlass.errors import BadSchedule
from windlass.value.cron import MINUTE, Schedule, is_zone
from windlass.value.duration import Duration, parse_duration

# The key is the only argument of a recurring row.
PAYLOAD = "null"

# The `prune_at` of a row that was removed while it ran: the end of the run deletes it.
GOES = 1 << 62
# The priority of a row that was hurried; its next visit restores its own priority.
HURRIED = (1 << 15) - 1


@dataclass(frozen=True, slots=True)
class EverySoOften:
    """Ticks a fixed time apart, aligned to the epoch."""

    interval: int

    def last(self, now: int) -> int:
        """The latest tick that is not after `now`."""
        return now - now % self.interval

    def first(self, moment: int) -> int:
        """The earliest tick that is not before `moment`."""
        return -(-moment // self.interval) * self.interval


class BySchedule:
    """The ticks of a cron expression."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        # The last tick and the next, cached: workers ask several times a second.
        self._around = (0, 0)

    def last(self, now: int) -> int:
        last, following = self._around
        if not last <= now < following:
            last, following = self._schedule.around(now)
            self._around = (last, following)
        return last

    def first(self, moment: int) -> int:
        return self._schedule.next_after(moment - 1)


Tick = EverySoOften | BySchedule


def parse_tick(given: Duration, *, what: str) -> Tick:
    """A tick from a duration, or from a cron expression and an optional time zone."""
    fields = given.split() if isinstance(given, str) else []
    *expression, zone = fields or [""]
    if fields and not is_zone(zone):
        expression, zone = fields, "UTC"
    if len(expression) in (5, 6) or (fields and fields[0].startswith("@")):
        return BySchedule(Schedule(" ".join(expression), zone))
    if len(fields) > 1:
        raise BadSchedule(
            f'{what}: cannot read {given!r}; write a cron expression such as "0 2 * * *", then a '
            'time zone if it is not UTC, or a duration such as "1h"'
        )
    return EverySoOften(parse_duration(given, what=what))


@dataclass(frozen=True)
class Period:
    """How often the items of a kind are visited. Times are microseconds."""

    every: int
    retry_after: int | None = None
    tick: Tick | None = None
    batch: int = 1_000

    @property
    def shortest(self) -> int:
        """The shortest time between two visits."""
        return self.every if self.retry_after is None else min(self.every, self.retry_after)

    @property
    def tolerance(self) -> int:
        """How much later than the period an item may be: a short wait in the queue."""
        return max(MINUTE, self.every // 100)

    def next_due(self, finished_at: int, *, failed: bool) -> int:
        """When an item is due again after a visit that ended at `finished_at`.

        With a tick, the period counts from the tick before the visit: an item of last night's tick
        is due at tonight's tick, however long it waited for a worker.
        """
        if failed and self.retry_after is not None:
            return finished_at + self.retry_after
        return self.due_until(finished_at) + self.every

    def due_until(self, now: int) -> int:
        """Items due by this moment may be taken at `now`."""
        return now if self.tick is None else self.tick.last(now)

    def taken_at(self, due_at: int) -> int:
        """When an item that is due at `due_at` may first be taken."""
        return due_at if self.tick is None else self.tick.first(due_at)


def remark_of(result: str | None) -> str | None:
    """A handler's result as a remark: text stays text, other values are JSON."""
    if result is None:
        return None
    return msgspec.json.decode(result, type=str) if result.startswith('"') else result


class VisitSoon(StrEnum):
    """What became of a visit that was asked for without waiting."""

    # A worker runs it soon.
    ASKED = "asked"
    # It was asked for before, or runs.
    PENDING = "pending"
    # It was done at most `fresh` ago.
    FRESH = "fresh"
    # Too many visits wait; ask again later.
    FULL = "full"


def is_fresh(at: int | None, fresh: int, now: int) -> bool:
    """Whether what was done `at` is at most `fresh` ago; all in microseconds."""
    # If it is in the future, the clock stepped back since, and its age is not known.
    return at is not None and now - fresh <= at <= now + SECOND

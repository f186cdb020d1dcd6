"""Cron schedules: when is the next turn, in a time zone, through daylight-saving changes.

The rule, for a schedule that names a fixed time of day: a time that the clocks skip happens at the
first moment after the gap, and a time that they show twice happens once, the first time. A schedule
that fires every so many minutes or hours follows real time and neither skips nor doubles.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from windlass.clock import from_datetime, to_datetime
from windlass.errors import BadSchedule


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cron expression of five fields in a time zone."""

    expression: str
    zone: str = "UTC"
    catchup: bool = False

    def __post_init__(self) -> None:
        try:
            zone = ZoneInfo(self.zone)
        except (OSError, ValueError, TypeError, ImportError) as problem:
            raise BadSchedule(
                f"time zone {self.zone!r} is not known; give an IANA name such as "
                '"Asia/Shanghai" or "UTC"'
            ) from problem
        if not isinstance(self.expression, str) or len(self.expression.split()) != 5:
            raise BadSchedule(
                f"cron {self.expression!r} does not have five fields; "
                'write minute hour day month weekday, for example "0 3 * * *"'
            )
        try:
            next(CronSim(self.expression, datetime(2026, 1, 1, tzinfo=zone)))
        except CronSimError as problem:
            raise BadSchedule(f"cron {self.expression!r} cannot be read: {problem}") from problem
        except StopIteration:
            raise BadSchedule(f"cron {self.expression!r} never comes") from None

    def next_after(self, moment: int) -> int:
        """The first turn later than `moment`, both in microseconds since the epoch."""
        local = to_datetime(moment).astimezone(ZoneInfo(self.zone))
        return from_datetime(next(CronSim(self.expression, local)).astimezone(UTC))

    def next_turn(self, *, last: int, now: int) -> int:
        """When to run again after the turn of `last`: missed turns collapse unless `catchup`."""
        return self.next_after(last if self.catchup else max(last, now))

"""A clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import datetime

from windlass.clock import ManualClock, from_datetime, to_datetime
from windlass.errors import BadInput
from windlass.value.duration import Duration, parse_duration


class Clock(ManualClock):
    """Stands still until `advance` or `move_to` is called. It begins at 2026-01-01, midnight UTC.

    Delays, back-offs, crons, periods, windows, breakers, expiries and pruning go by it. A
    handler's `timeout` and a `rate` do not: they run on real time.
    """

    @property
    def time(self) -> datetime:
        """The moment at which it stands, in UTC."""
        return to_datetime(max(self._time, self._last))

    def advance(self, by: int | Duration) -> None:
        """Move forward by a duration, such as "3h", "10d" or a timedelta."""
        if isinstance(by, int):
            raise BadInput(f'advance({by!r}): a number of what? write "{by}s" or "{by}m"')
        super().advance(parse_duration(by, what="advance"))

    def move_to(self, moment: datetime) -> None:
        """Move forward to a moment, which must have a time zone."""
        if moment.tzinfo is None:
            raise BadInput(f"move_to({moment}): the moment has no time zone; give it one")
        ahead = from_datetime(moment) - max(self._time, self._last)
        if ahead < 0:
            raise BadInput(f"move_to({moment}): it is {self.time} already; time never goes back")
        super().advance(ahead)

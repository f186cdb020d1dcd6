"""The time, in microseconds since the epoch.

The database's clock is the authority, because several machines share one table. A worker asks the
database for the time now and then, and counts on its own monotonic clock in between. So a wrong
wall clock on one machine changes nothing. A clock never gives the same time twice, so rows run in
the order in which they were enqueued.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from windlass.fork import watch_forks

SECOND = 1_000_000
MEASURE_AGAIN_AFTER = 60.0


class Clock:
    """Strictly increasing time. Subclasses read it in `_read`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        watch_forks(self)

    def after_fork(self) -> None:
        # Another thread of the parent may have held the lock.
        self._lock = threading.Lock()

    def now(self) -> int:
        """The time now, later than every time before."""
        return self.reserve(1)

    def reserve(self, count: int) -> int:
        """The first of `count` successive times, all later than every time before.

        The last one is the present if possible, so that no row is due later than asked.
        """
        with self._lock:
            first = max(self._last + 1, self._read() - count + 1)
            self._last = first + count - 1
            return first

    def _read(self) -> int:
        raise NotImplementedError


class DatabaseClock(Clock):
    """Follows the clock of a database, which `measure` reads."""

    def __init__(self, measure: Callable[[], int]) -> None:
        super().__init__()
        self._measure = measure
        self._anchor: tuple[int, float, float] | None = None

    def synchronise(self, measure: Callable[[], int] | None = None) -> None:
        """Ask the database for the time; half of the round trip counts as its age.

        `measure` asks by another connection.
        """
        before = time.monotonic()
        measured = self._measure() if measure is None else measure()
        after = time.monotonic()
        self._anchor = (measured + int((after - before) / 2 * SECOND), after, time.time())

    def _read(self) -> int:
        anchor = self._anchor
        if anchor is None or self._is_stale(anchor):
            self.synchronise()
            anchor = self._anchor
            assert anchor is not None
        measured, at_monotonic, _ = anchor
        return measured + int((time.monotonic() - at_monotonic) * SECOND)

    @staticmethod
    def _is_stale(anchor: tuple[int, float, float]) -> bool:
        _, at_monotonic, at_wall = anchor
        elapsed = time.monotonic() - at_monotonic
        # While a machine sleeps, its monotonic clock stops and its wall clock does not.
        slept = abs((time.time() - at_wall) - elapsed) > 1.0
        return elapsed > MEASURE_AGAIN_AFTER or slept


class ManualClock(Clock):
    """Stands still until `advance`; for tests."""

    def __init__(self, start: datetime | None = None) -> None:
        super().__init__()
        self._time = from_datetime(start or datetime(2026, 1, 1, tzinfo=UTC))

    def advance(self, by: int) -> None:
        """Move the time forward by `by` microseconds."""
        with self._lock:
            self._time = max(self._time, self._last) + by

    def _read(self) -> int:
        return self._time


def from_datetime(moment: datetime) -> int:
    """An aware datetime as microseconds since the epoch, exactly."""
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * SECOND + delta.microseconds


def to_datetime(microseconds: int) -> datetime:
    """Microseconds since the epoch as an aware datetime in UTC, exactly."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)

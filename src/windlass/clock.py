"""The time, in microseconds since the epoch.

The database's clock is the authority, because several machines share one table. A worker asks the
database for the time now and then, and counts on its own monotonic clock in between. So a wrong
wall clock on one machine changes nothing. A clock never gives the same time twice, so rows run in
the order in which they were enqueued.

The database's clock may be set, or another server with another clock may take its place. Its time
then differs from the time that was expected: that is a step. The clock follows it at once, in both
directions. Only at a step back does it give a time that is earlier than one it gave before.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from windlass import telemetry
from windlass.fork import watch_forks

SECOND = 1_000_000
# Rows that are enqueued between a step back and the next answer are due when the old time says so.
MEASURE_AGAIN_AFTER = 5.0
# Less is a slow answer, or a clock that is being corrected slowly.
SMALLEST_STEP = SECOND // 2
MOST_PENDING = 100

# Where there is one, a clock that does not stand still while the machine sleeps.
_STEADY = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


class ClockStep(NamedTuple):
    """The database's clock stepped `by` microseconds, to `at` or a moment earlier.

    It happened at most `since` microseconds before `at`, by the new time.
    """

    by: int
    at: int
    since: int


class Clock:
    """Strictly increasing time between two steps. Subclasses read it in `_read`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        watch_forks(self)

    def after_fork(self) -> None:
        # Another thread of the parent may have held the lock.
        self._lock = threading.Lock()

    @property
    def pending(self) -> Sequence[ClockStep]:
        """Steps that were noticed here and are not recorded in the database yet."""
        return ()

    def recorded(self, step: ClockStep) -> None:
        """A step is in the database now."""

    def now(self) -> int:
        """The time now, later than every time before."""
        return self.reserve(1)

    def fresh(self) -> int:
        """The time now, by a recent answer of the database: to compare with what others wrote."""
        return self.now()

    def reserve(self, count: int) -> int:
        """The first of `count` successive times, all later than every time before.

        The last one is the present if possible, so that no row is due later than asked.
        """
        with self._lock:
            # First: it may notice a step back, and then the last time no longer counts.
            time_now = self._read()
            first = max(self._last + 1, time_now - count + 1)
            self._last = first + count - 1
        self._announce()
        return first

    def _read(self) -> int:
        raise NotImplementedError

    def _announce(self) -> None:
        """Emit what was noticed, without the lock: listeners may ask for the time."""


class Anchor(NamedTuple):
    """An answer of the database, and when it came: on the steady clock and on the wall clock.

    The answer is wrong by at most `doubt`, half of the round trip.
    """

    measured: int
    doubt: int
    steady: float
    wall: float

    def at(self, steady: float) -> int:
        """The database's time at a moment of the steady clock."""
        return self.measured + int((steady - self.steady) * SECOND)


class DatabaseClock(Clock):
    """Follows the clock of a database, which `measure` reads."""

    def __init__(self, measure: Callable[[], int], *, name: str = "") -> None:
        super().__init__()
        self._measure = measure
        self._name = name
        self._anchor: Anchor | None = None
        self._pending: deque[ClockStep] = deque(maxlen=MOST_PENDING)
        self._unannounced: deque[ClockStep] = deque()

    def synchronise(self, measure: Callable[[], int] | None = None) -> None:
        """Ask the database for the time; half of the round trip counts as its age.

        `measure` asks by another connection.
        """
        asked_at, anchor = _ask(self._measure if measure is None else measure)
        with self._lock:
            self._follow(asked_at, anchor)
        self._announce()

    def fresh(self) -> int:
        anchor = self._anchor
        if anchor is None or _steady() - anchor.steady > 1.0:
            self.synchronise()
        return self.now()

    @property
    def pending(self) -> Sequence[ClockStep]:
        return tuple(self._pending)

    def recorded(self, step: ClockStep) -> None:
        with self._lock:
            if step in self._pending:
                self._pending.remove(step)

    def _read(self) -> int:
        if self._anchor is None or self._is_stale(self._anchor):
            self._follow(*_ask(self._measure))
            assert self._anchor is not None
        return self._anchor.at(_steady())

    def _follow(self, asked_at: float, found: Anchor) -> None:
        """Count from `found` on, and notice a step. Hold the lock."""
        before = self._anchor
        if before is not None and asked_at < before.steady:
            # Another thread has a newer answer.
            return
        self._anchor = found
        if before is None:
            return
        by = found.measured - before.at(found.steady)
        if abs(by) <= SMALLEST_STEP + before.doubt + found.doubt:
            return
        now = found.at(_steady())
        # Times before a step back are later than this one, and stay so until it is made up for.
        self._last = min(self._last, now)
        step = ClockStep(by, now, int((found.steady - before.steady) * SECOND))
        self._pending.append(step)
        self._unannounced.append(step)

    def _announce(self) -> None:
        while self._unannounced:
            try:
                step = self._unannounced.popleft()
            except IndexError:
                return
            seconds = round(step.by / SECOND, 3)
            telemetry.emit("clock.stepped", seconds=seconds, database=self._name)

    @staticmethod
    def _is_stale(anchor: Anchor) -> bool:
        elapsed = _steady() - anchor.steady
        # While a machine sleeps, some steady clocks stop, and its wall clock does not.
        slept = abs((time.time() - anchor.wall) - elapsed) > 1.0
        return elapsed > MEASURE_AGAIN_AFTER or slept


def _ask(measure: Callable[[], int]) -> tuple[float, Anchor]:
    """When the database was asked, and its answer as of the moment when it came."""
    asked_at = _steady()
    measured = measure()
    answered_at = _steady()
    doubt = int((answered_at - asked_at) / 2 * SECOND)
    return asked_at, Anchor(measured + doubt, doubt, answered_at, time.time())


def _steady() -> float:
    return time.monotonic() if _STEADY is None else time.clock_gettime(_STEADY)


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

"""The window of a carrier: how many runs may be on their way at once.

What consumers work on is no longer in the queue. So the runs that are outstanding, minus the
messages that wait in the queue, are what consumers have taken; and the queue should have as much
more as they answer in two seconds. The window starts small. While the queue is nearly empty it
grows by that, or by a quarter: consumers of long tasks answer seldom, and have room nevertheless.
It shrinks to that sum when the queue is longer. Without consumers it stays small.

How fast consumers answer is the smaller of two averages. Runs that began together end together, and
a burst of replies says little about the next seconds: the slow average knows that. The quick one
knows when consumers have left.

Workers that share a queue see the same messages wait. Each of them counts all as its own, so the
queue has less than the sum of their windows, never more.
"""

from __future__ import annotations

import time
from math import exp

SMALLEST = 8
LARGEST = 2_000
AHEAD_SECONDS = 2.0
# Over how many seconds the two averages reach back.
QUICK_SECONDS = 1.0
SLOW_SECONDS = 15.0


class CarryWindow:
    """How many runs of one queue may be outstanding."""

    def __init__(self) -> None:
        self.size = SMALLEST
        self._quick, self._slow = _Average(QUICK_SECONDS), _Average(SLOW_SECONDS)
        self._replies = 0
        self._measured_at = time.monotonic()

    @property
    def per_second(self) -> float:
        """How fast consumers answer."""
        return min(self._quick.per_second, self._slow.per_second)

    def replied(self) -> None:
        """A reply came."""
        self._replies += 1

    def measure(self, *, outstanding: int, waiting: int, now: float) -> None:
        """Set the size: `waiting` messages are in the queue, of all workers together."""
        elapsed = now - self._measured_at
        if elapsed <= 0:
            return
        for average in (self._quick, self._slow):
            average.add(self._replies, elapsed)
        self._replies, self._measured_at = 0, now
        ahead = max(SMALLEST, int(self.per_second * AHEAD_SECONDS))
        if waiting * 2 <= ahead:
            if outstanding * 2 >= self.size:
                self.size = min(LARGEST, self.size + max(ahead, self.size // 4))
        elif waiting > ahead:
            self.size = min(LARGEST, max(SMALLEST, outstanding - waiting + ahead))

    def rest(self, now: float) -> None:
        """Nothing is outstanding: time without work does not count."""
        self._replies, self._measured_at = 0, now


class _Average:
    """Replies per second, of which older ones count less."""

    def __init__(self, reach_seconds: float) -> None:
        self._reach = reach_seconds
        self._replies = self._seconds = 0.0

    def add(self, replies: int, seconds: float) -> None:
        fades = exp(-seconds / self._reach)
        self._replies = self._replies * fades + replies
        self._seconds = self._seconds * fades + seconds

    @property
    def per_second(self) -> float:
        return self._replies / self._seconds if self._seconds else 0.0

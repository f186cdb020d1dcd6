"""A gauge: what one worker sees of a downstream that adapts, until it is asked."""

from __future__ import annotations

from windlass.clock import SECOND
from windlass.value.load.adapt import Interval
from windlass.value.outcome import Failed, Outcome, Retried, Snoozed


class Gauge:
    """Counts the calls of one downstream. Used under the lock of `InFlight`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._running = 0
        self._seen = Interval()

    def began(self) -> None:
        """A run has begun."""
        self._running += 1
        self._seen.started += 1
        self._seen.in_flight = max(self._seen.in_flight, self._running)

    def ended(self, outcome: Outcome, seconds: float) -> None:
        """A run has ended. An error says nothing about how much the other side can bear."""
        if isinstance(outcome, Snoozed) and outcome.overload is not None:
            self._seen.overloaded += 1
            self._seen.retry_after = max(self._seen.retry_after, outcome.delay / SECOND)
        elif not isinstance(outcome, Failed | Retried | Snoozed):
            self._seen.succeeded += 1
            self._seen.latency_sum += seconds

    def stopped(self) -> None:
        """A run is no longer running, for whatever reason."""
        self._running -= 1

    def take(self) -> Interval:
        """What was seen since the last time."""
        seen, self._seen = self._seen, Interval(in_flight=self._running)
        return seen

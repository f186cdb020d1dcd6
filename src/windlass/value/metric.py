"""Numbers of a process: its pulse for the terminal, and values of metrics that processes add up."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

# Upper bounds of buckets in seconds: of runs and waits, and of calls of the database.
RUN_BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0, 3600.0)
CALL_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Distribution:
    """How many values were in each bucket, and their sum. The caller has a lock."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        # One more than bounds: the last bucket has no bound.
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_all(self, values: list[float]) -> None:
        """Count many values, and sort the list: that is cheaper than a search for each."""
        if not values:
            return
        self.total += sum(values)
        first, last = (bisect_left(self.bounds, end) for end in (min(values), max(values)))
        if first == last:
            self.counts[first] += len(values)
            return
        values.sort()
        before = 0
        for place in range(first, last):
            until = bisect_right(values, self.bounds[place])
            self.counts[place] += until - before
            before = until
        self.counts[last] += len(values) - before


class MetricValue(msgspec.Struct, frozen=True, array_like=True):
    """One value of a metric; of a histogram, the sum of its values and the count of each bucket."""

    name: str
    labels: tuple[str, ...]
    value: float
    counts: list[int] | None = None

    @property
    def place(self) -> tuple[str, tuple[str, ...]]:
        """Samples of the same place are the same number in several processes."""
        return self.name, self.labels

    def plus(self, other: MetricValue) -> MetricValue:
        """Both together."""
        counts = self.counts
        if counts is not None and other.counts is not None:
            counts = [mine + its for mine, its in zip(counts, other.counts, strict=True)]
        return MetricValue(self.name, self.labels, self.value + other.value, counts)


@dataclass(frozen=True)
class Pulse:
    """How many tasks a worker runs and has queued, and what became of the others."""

    running: int
    queued: int
    done: int
    failed: int
    abandoned: int


@dataclass(frozen=True)
class Report:
    """What a worker process tells its supervisor; `trouble` is why it takes no work."""

    pulse: Pulse
    trouble: str | None
    # What it has counted, if metrics are asked for.
    samples: list[MetricValue] | None = None

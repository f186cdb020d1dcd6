"""How busy each kind is in a worker, and how much more of it could start soon."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from windlass.core.face import Site
from windlass.core.run.budget import Budget
from windlass.core.task.kind import Kind

AHEAD_SECONDS = 0.2
RATE_WINDOW = 0.05
SPEED_WINDOW = 0.2
LEAST_BUSY = 0.001
# Kinds with a lower or equal `max_lost` are frail: one loss makes a row poison, or run alone.
MOST_FRAIL = 2


class KindLoad:
    """How busy one kind is in this worker."""

    def __init__(self, kind: Kind, concurrency: int) -> None:
        self.kind = kind
        self.timeout = None if kind.timeout is None else kind.timeout / 1e6
        self.is_scheduled = kind.schedule is not None
        self.is_rolling = kind.period is not None
        self.has_rows = kind.has_rows
        self.forgets = kind.terms.forgets
        self.forgets_named = kind.terms.forgets_named
        self.is_open = True
        # Whether a breaker is about to open: nothing starts until that is written.
        self.is_tripped = False
        self.is_rated = kind.rate is not None
        # Whether rows are taken only when they can start, as a loss costs too much.
        self.is_frail = kind.max_lost <= MOST_FRAIL
        self.limits(kind.concurrency, concurrency)
        # The budget that the workers of several shards share, and the name of this one in it.
        self.budget: Budget | None = None
        self.holder: object = None
        # Where its rows are, for faces that write beside them.
        self.site: Site | None = None
        self.queued = 0
        self.running = 0
        self.ended = 0
        self.per_second = 0.0
        self.ended_before = 0

    def limits(self, own: int | None, concurrency: int) -> None:
        """Run at most `own` at once, or up to the worker's `concurrency` if that is None."""
        self.has_own_limit = own is not None
        self.limit = min(own or concurrency, concurrency)

    def room(self, total: int, *, free: int) -> int:
        """How many more of this kind could start soon, of `total` in all and `free` at once."""
        if not self.is_open:
            return 0
        total = min(total, free) if self.is_frail else total
        free = self.limit - self.running - self.queued
        if self.is_rated or self.is_frail:
            # Rows that wait would start later than the rate allows, or be lost with the worker.
            return 0 if self.queued else min(total, free)
        if not self.has_own_limit:
            return total
        return min(total, free + int(self.per_second * AHEAD_SECONDS))


class Room(NamedTuple):
    """How many rows a worker could start soon: in all, and of each kind."""

    total: int
    kinds: dict[str, int]


NO_ROOM = Room(0, {})


class Speedometer:
    """Measures how fast each kind runs; time without work does not count."""

    def __init__(self) -> None:
        self._measured_at = time.monotonic()
        self._busy_since: float | None = None
        self._busy_seconds = 0.0

    def begin(self) -> None:
        """There is work."""
        if self._busy_since is None:
            self._busy_since = time.monotonic()

    def rest(self, now: float) -> None:
        """There is no work any more."""
        if self._busy_since is not None:
            self._busy_seconds += now - self._busy_since
            self._busy_since = None

    def measure(self, loads: Iterable[KindLoad], *, is_idle: bool) -> None:
        """Set the speed of each load, unless it was measured just now."""
        now = time.monotonic()
        if now - self._measured_at < RATE_WINDOW:
            return
        was_busy = self._busy_since is not None
        self.rest(now)
        if was_busy and not is_idle:
            self._busy_since = now
        busy, self._busy_seconds, self._measured_at = self._busy_seconds, 0.0, now
        if not busy:
            return
        # A long measurement counts more than a short one.
        weight = min(1.0, busy / SPEED_WINDOW)
        for load in loads:
            speed = (load.ended - load.ended_before) / max(busy, LEAST_BUSY)
            load.ended_before = load.ended
            load.per_second += (speed - load.per_second) * (weight if load.per_second else 1.0)

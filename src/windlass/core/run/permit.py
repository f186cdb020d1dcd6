"""Permits in one worker: how many runs it may have of a downstream, or of a kind in the fleet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from windlass.core.run.ready import KindLoad

# What was used within this time is kept, unless others wait for it.
KEEP_SECONDS = 0.5
# How long a worker that could start rows is taken to want them.
ASKED_SECONDS = 1.0


class Holder(Protocol):
    """The worker's row under which permits are held."""

    @property
    def id(self) -> int:
        """Its id; permits of another id are gone."""

    @property
    def good_until(self) -> float:
        """Until when others cannot have marked it left, on the monotonic clock."""


class Pool:
    """The permits of one name that a worker holds, and how many of them are in use.

    Its lock is taken inside the lock of `InFlight`. It calls nothing while it holds it.
    """

    def __init__(self, name: str, holder: Holder) -> None:
        self.name = name
        self.holder = holder
        # The limit of the fleet; None: there is none now, and every run may start.
        self.limit: int | None = None
        # The loads whose runs use it.
        self.loads: list[KindLoad] = []
        self.used = 0
        self._held = 0
        self._holder_id = 0
        self._asked = 0
        self._asked_until = 0.0
        self._peaks = (0, 0)
        self._peaked_at = 0.0
        self._lock = threading.Lock()
        # Called when a run or a fetch lacks a permit, and when one that was lacking is free.
        self.on_lack: Callable[[], None] = lambda: None
        self.on_free: Callable[[], None] = lambda: None
        self._is_lacking = False

    @property
    def held(self) -> int:
        """How many permits it has under its present id."""
        is_ours = self._holder_id == self.holder.id and time.monotonic() < self.holder.good_until
        return self._held if is_ours else 0

    @property
    def queued(self) -> int:
        """How many runs could start now if they had a permit."""
        return sum(load.calls_queued for load in self.loads)

    @property
    def free(self) -> int | None:
        """How many more runs it has permits for; None without a limit."""
        return None if self.limit is None else self.held - self.used - self.queued

    def take(self) -> bool:
        """Use a permit for a run; False if there is none."""
        with self._lock:
            has_one = self.limit is None or self.used < self.held
            if has_one:
                self.used += 1
                first, second = self._peaks
                self._peaks = first, max(second, self.used)
            else:
                self._is_lacking = True
        if not has_one:
            self.on_lack()
        return has_one

    def give_back(self) -> None:
        """A run has ended."""
        with self._lock:
            self.used -= 1
            was_lacking, self._is_lacking = self._is_lacking, False
        if was_lacking:
            self.on_free()

    def available(self, wanted: int, *, ahead: int = 0) -> int:
        """How many of the `wanted` rows could start soon; it asks for permits that it lacks.

        Up to `ahead` rows may wait for a run that is about to end.
        """
        if self.limit is None:
            return wanted
        queued = self.queued
        with self._lock:
            free = self.held - self.used - queued
            available = max(0, free + (ahead if self.held else 0))
            is_lacking = available < wanted
            if is_lacking:
                self._is_lacking = True
                self._asked = self.used + queued + wanted
                self._asked_until = time.monotonic() + ASKED_SECONDS
        if is_lacking:
            self.on_lack()
        return min(available, wanted)

    def want(self, waiting: int) -> None:
        """Ask for permits that runs wait for which could start now, if it lacks them."""
        if self.limit is None:
            return
        queued = self.queued
        with self._lock:
            wanted = self.used + queued + waiting
            is_lacking = wanted > self.held
            if is_lacking:
                self._asked, self._asked_until = wanted, time.monotonic() + ASKED_SECONDS
        if is_lacking:
            self.on_lack()

    def found_nothing(self) -> None:
        """There was no row to start."""
        self._asked = 0

    def demand(self) -> int:
        """How many permits it could use: what it used lately, and what waits."""
        now = time.monotonic()
        queued = self.queued
        with self._lock:
            if now - self._peaked_at >= KEEP_SECONDS:
                self._peaks, self._peaked_at = (self._peaks[1], self.used), now
            asked = self._asked if now < self._asked_until else 0
            return min(self.limit or 0, max(*self._peaks, self.used + queued, asked))

    def lower(self, most: int) -> tuple[int, int]:
        """Start nothing above `most` from now on; how many it may and does use."""
        with self._lock:
            self._held = min(self.held, most)
            self._holder_id = self.holder.id
            return self._held, self.used

    def raise_to(self, held: int, *, holder: int) -> None:
        """Its row says that it has that many."""
        with self._lock:
            self._held, self._holder_id = held, holder

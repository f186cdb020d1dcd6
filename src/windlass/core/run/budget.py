"""The budget of runs that the workers of several shards share in one process."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable

# A worker that has not asked again for this long no longer wants a slot.
WANTED_SECONDS = 1.0


class Budget:
    """One budget for the workers of several shards in one process: limits their runs in total.

    The worker that ends a run is the first to ask for its slot again, so a busy shard could keep
    all slots. Therefore a worker that uses more than its part waits while another wants a slot.

    Its lock is taken inside the lock of `InFlight`. It calls nothing while it holds it.
    """

    def __init__(self, total: int, holders: int = 1) -> None:
        self.total = total
        # How many rows each worker may have waiting for a slot.
        self.ahead = max(1, total // (4 * holders))
        self._lock = threading.Lock()
        self._used: Counter[str | None] = Counter()
        self._used_by: Counter[tuple[Hashable, str | None]] = Counter()
        self._wanted: dict[tuple[Hashable, str | None], float] = {}
        self._wakers: list[Callable[[], None]] = []

    def on_free(self, wake: Callable[[], None]) -> None:
        """Call `wake` when a slot becomes free that a worker asked for."""
        self._wakers.append(wake)

    @property
    def free(self) -> int:
        return self.total - self._used[None]

    def take(self, holder: Hashable, kind: str, limit: int) -> bool:
        """Take a slot for a run of `kind`, at most `limit` of that kind; False if there is none."""
        with self._lock:
            now = time.monotonic()
            for what, most in ((None, self.total), (kind, limit)):
                if self._used[what] >= most or self._has_its_part(holder, what, most, now):
                    self._wanted[holder, what] = now
                    return False
            for what in (None, kind):
                self._used[what] += 1
                self._used_by[holder, what] += 1
                self._wanted.pop((holder, what), None)
            return True

    def give_back(self, holder: Hashable, kind: str) -> None:
        with self._lock:
            for what in (None, kind):
                self._used[what] -= 1
                self._used_by[holder, what] -= 1
        self.wake()

    def wake(self) -> None:
        """Let all workers try to start runs again, if one of them got no slot before."""
        if self._wanted:
            for wake in self._wakers:
                wake()

    def _has_its_part(self, holder: Hashable, what: str | None, most: int, now: float) -> bool:
        others = [
            self._used_by[other, what]
            for (other, wanted), asked_at in self._wanted.items()
            if wanted == what and other != holder and now - asked_at < WANTED_SECONDS
        ]
        mine = self._used_by[holder, what]
        return bool(others) and mine >= most / (len(others) + 1) and mine > min(others)

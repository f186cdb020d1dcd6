"""Who is silent: a worker whose lease does not change.

Which time is trusted? Only the monotonic clock of the process that watches. The database's clock
may step, and then every lease looks as if it had ended long ago, or as if it lasted for hours. But
a live worker writes another lease with each heartbeat, whatever the clock says. So a worker is
silent if an observer has read the same lease for `dead_after`. Marking it dead compares again, with
its row locked: a lease that is no longer the one that was watched means that the worker is alive.

A caller that visits one item, and one that moves rows, cannot watch for that long. If by the
clock a lease ended long ago, they watch it for a little more than one heartbeat. That is enough
after a step: a live worker's next heartbeat writes a lease by the new time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from windlass.clock import SECOND, Clock
from windlass.core.ring import store as ring_store
from windlass.core.ring.store import WorkerView
from windlass.database.database import Database

LONGEST_BEAT_SECONDS = 1.0
BEATS_PER_LEASE = 5
GLANCE_BEATS = 1.5


def beat_seconds(dead_after: int) -> float:
    """How often a worker renews its lease."""
    return min(LONGEST_BEAT_SECONDS, dead_after / SECOND / BEATS_PER_LEASE)


class Watch:
    """The leases of workers, and since when each has not changed, on the monotonic clock."""

    def __init__(self) -> None:
        self._leases: dict[int, tuple[int, float]] = {}

    def see(self, workers: Iterable[WorkerView], *, at: float) -> None:
        """Take over what was just read; workers that are no longer listed are forgotten."""
        before, self._leases = self._leases, {}
        for view in workers:
            lease, since = before.get(view.id, (None, at))
            self._leases[view.id] = view.lease_until, since if lease == view.lease_until else at

    def unchanged(self, seconds: float, *, at: float) -> dict[int, int]:
        """The workers whose lease has been the same for that long, each with its lease."""
        return {
            number: lease
            for number, (lease, since) in self._leases.items()
            if at - since >= seconds
        }


def overdue(
    database: Database,
    clock: Clock,
    *,
    dead_after: int,
    among: Callable[[WorkerView], bool] = lambda _view: True,
) -> Mapping[int, int]:
    """Workers whose lease ended `dead_after` ago by the clock, and does not change.

    Each with its lease, to mark it dead. If there are any, it takes a little longer than a
    heartbeat.
    """

    def look() -> dict[int, int]:
        now = clock.fresh()
        return {
            view.id: view.lease_until
            for view in database.read(ring_store.workers)
            # Twice the time, because after an outage all workers come back a moment late.
            if among(view) and view.lease_until < now - dead_after
        }

    first = look()
    if not first:
        return first
    time.sleep(GLANCE_BEATS * beat_seconds(dead_after))
    return dict(first.items() & look().items())

"""Silent workers, for callers that cannot watch for long: a visit of one item, a move of rows.

A heartbeat watches the leases of all others for `dead_after` (`LeaseWatch`). These callers cannot.
If by the clock a lease ended long ago, they watch it for a little more than one heartbeat. That is
enough after a step of the clock: a live worker's next heartbeat writes a lease by the new time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from windlass.clock import Clock
from windlass.core.ring import store as ring_store
from windlass.core.ring.heartbeat import beat_seconds
from windlass.core.ring.store import WorkerView
from windlass.database.database import Database

GLANCE_BEATS = 1.5


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

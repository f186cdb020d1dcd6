"""A visit of one item now: by a live worker if there is one, else by the caller itself.

The caller never just calls the handler. It joins as a worker that takes this one row by a written
claim, so nobody else can run it at the same time and the outcome is recorded as a visit.
"""

from __future__ import annotations

import time

from windlass.clock import SECOND, from_datetime
from windlass.core.limit.store import switch
from windlass.core.limit.switch import setting_of
from windlass.core.ring.leave import mark_dead
from windlass.core.ring.store import worker
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.errors import HeldBack, ItemNotFound, ResultTimeout
from windlass.rolling.model import Item
from windlass.rolling.store import item as rolling
from windlass.value.status import Status

FIRST_LOOK = 0.005
LAST_LOOK = 0.25
ASK_AGAIN_AFTER = 1.0
RESTED_AFTER = 5 * SECOND


class VisitRequest:
    """A request to visit one item now."""

    def __init__(self, shard: Shard, kind: Kind, code: str, *, dead_after: int) -> None:
        self._database = shard.database
        self._clock = clock = shard.clock
        self._faces = shard.faces
        self._kind = kind
        self._code = code
        self._dead_after = dead_after
        self.asked_at = clock.now()
        # Whether no worker has taken anything of the kind for a while, as its window is closed.
        self.is_rested = False

    def is_fresh(self, item: Item, fresh: int | None) -> bool:
        """Whether its last visit is recent enough."""
        if fresh is None or item.finished_at is None:
            return False
        return self.asked_at - from_datetime(item.finished_at) <= fresh

    def item(self) -> Item:
        """The item as it is now."""
        found = self._database.read(
            lambda connection: rolling.item(connection, self._kind.name, self._code)
        )
        if found is None:
            raise ItemNotFound(self._kind.name, self._code)
        return found

    def has_worker(self) -> bool:
        """Whether a live worker may run the kind now; raises if nobody may."""

        def look(connection: Connection) -> tuple[switch.Switch, list[worker.WorkerView]]:
            return switch.get(connection, self._kind.name), worker.listing(connection)

        found, workers = self._database.read(look)
        now = self._clock.now()
        if found.off:
            raise HeldBack(self._kind.name, f"it is paused: {found.reason or 'no reason given'}")
        if self._kind.breaker is not None and found.breaker.is_open:
            raise HeldBack(self._kind.name, "its breaker is open after too many errors in a row")
        is_served = any(
            view.lease_until >= now and self._kind.name in view.kinds for view in workers
        )
        if not is_served:
            self._mark_holder_dead(workers, now)
        # A closed window holds back the round, not somebody who asks for one item.
        setting = setting_of(self._kind, found)
        rest = max(RESTED_AFTER, 2 * self._dead_after)
        was_set = found.window is not None
        # Of a window that somebody has set, nobody knows for how long it has been closed.
        self.is_rested = not (was_set or setting.is_open(now) or setting.is_open(now - rest))
        return is_served and setting.is_open(now)

    def _mark_holder_dead(self, workers: list[worker.WorkerView], now: int) -> None:
        """The item or its bucket may be a dead worker's, and nobody else is there to notice."""
        holder, owner = self._database.read(
            lambda connection: rolling.holders(connection, self._kind.name, self._code)
        )
        # Twice the time, as after an outage all of them come back a moment late.
        for view in workers:
            if view.id in (holder, owner) and view.lease_until < now - self._dead_after:
                mark_dead(self._database, self._faces, number=view.id, now=now)

    def wait(self, deadline: float) -> Item | None:
        """The item, once a visit of it has ended that was not over when this one was asked for.

        None after a while, to see whether whoever was to run it is still there; ResultTimeout
        when the time is out.
        """
        pause, ask_again = FIRST_LOOK, time.monotonic() + ASK_AGAIN_AFTER
        while time.monotonic() < ask_again:
            item = self.item()
            if self.is_done(item):
                return item
            left = deadline - time.monotonic()
            if left <= 0:
                raise self.too_late()
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, LAST_LOOK)
        return None

    def is_done(self, item: Item) -> bool:
        """Whether a visit has ended since this one was asked for."""
        return (
            item.status is not Status.RUNNING
            and item.finished_at is not None
            and from_datetime(item.finished_at) > self.asked_at
        )

    def too_late(self) -> ResultTimeout:
        """The error for a visit that did not end in time."""
        return ResultTimeout(
            f"{self._kind.name!r}: the visit of {self._code!r} did not end in time; "
            "if it runs it goes on and is recorded, if not it is still asked for"
        )

"""The seam where rows come from: a claim gives a worker rows that are due and nobody else's.

Two ways belong behind it. The *written claim* here stamps rows before they run: any worker may take
any row. What takes its place must keep its promises: a row is given to one living worker at a time,
and what comes back is everything that run and finish need.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from sqlalchemy import Connection

from windlass.clock import Clock
from windlass.declare.kind import Kind
from windlass.engine.hold import Room
from windlass.model.task import Claimed
from windlass.store import claim as store
from windlass.store.database import Database
from windlass.store.dialect.base import Lane, Stamp
from windlass.store.finish import Batch
from windlass.store.number import Numbers

CLAIM_AT_MOST = 1_000
RESCUE_AT_MOST = 500
LOOK_AGAIN_AFTER = 0.25


@dataclass(frozen=True)
class Taken:
    """What a claim brought to run, and when to ask again if it brought nothing.

    `poison` was failed on the way and is only told.
    """

    tasks: list[Claimed]
    poison: list[Claimed]
    next_due_in: float | None = None
    some_wait_to_run_alone: bool = False
    some_could_not_be_had: bool = False


class Claims(Protocol):
    """Where a worker's rows come from."""

    def take(self, room: Room) -> Taken:
        """Due rows that fit into `room`, highest priority and then oldest first."""
        ...

    def look_again(self) -> None:
        """Something new was enqueued: look before taking what was known."""
        ...

    def due(self) -> set[str]:
        """The kinds that have due rows now."""
        ...

    def take_fallen(self, *, alone: bool) -> Taken:
        """Rows that fell when their worker died; with `alone`, one that must run by itself."""
        ...


class WrittenClaim:
    """Takes rows by stamping them: batch, worker, lease end, attempt + 1, in one transaction."""

    def __init__(
        self,
        database: Database,
        kinds: Mapping[str, Kind],
        clock: Clock,
        numbers: Numbers,
        *,
        worker: Callable[[], int],
        lease: int,
        bury: Callable[[list[Claimed], Connection], Batch],
    ) -> None:
        self._database = database
        self._kinds = kinds
        self._clock = clock
        self._numbers = numbers
        self._worker = worker
        self._lease = lease
        self._bury = bury
        self._lanes: list[Lane] = []
        self._looked_at = 0.0

    def take(self, room: Room) -> Taken:
        if not room.kinds:
            return Taken([], [])
        if time.monotonic() - self._looked_at < LOOK_AGAIN_AFTER:
            tasks = self._claim(room)
            if tasks:
                return Taken(tasks, [])
        lanes = self._look()
        tasks = self._claim(room)
        if tasks:
            return Taken(tasks, [])
        now = self._clock.now()
        mine = [lane for lane in lanes if lane.kind in room.kinds]
        due = [lane for lane in mine if lane.due_at <= now]
        later = [lane.due_at - now for lane in mine if lane.due_at > now]
        return Taken(
            [],
            [],
            next_due_in=min(later) / 1e6 if later else None,
            some_could_not_be_had=bool(due),
            some_wait_to_run_alone=bool(due)
            and store.some_wait_to_run_alone(self._database, due, self._lives, now=now),
        )

    def due(self) -> set[str]:
        """The kinds that have due rows now."""
        now = self._clock.now()
        return {lane.kind for lane in self._look() if lane.due_at <= now}

    def _look(self) -> list[Lane]:
        self._lanes = store.lanes(self._database, self._kinds)
        self._looked_at = time.monotonic()
        return list(self._lanes)

    def look_again(self) -> None:
        """Forget what is known of the lanes: something new was enqueued."""
        self._looked_at = 0.0

    def take_fallen(self, *, alone: bool) -> Taken:
        if not self._kinds:
            return Taken([], [])
        max_lost = {name: kind.max_lost for name, kind in self._kinds.items()}
        rescued = store.rescue(
            self._database,
            max_lost,
            self._stamp(),
            limit=RESCUE_AT_MOST,
            alone=alone,
            bury=self._bury,
        )
        tasks = rescued.again
        if alone and not tasks:
            tasks = self._claim_alone()
        return Taken(tasks, rescued.poison, some_wait_to_run_alone=rescued.some_wait_to_run_alone)

    def _claim(self, room: Room) -> list[Claimed]:
        now = self._clock.now()
        left = dict(room.kinds)
        budget = min(CLAIM_AT_MOST, room.total)
        tasks: list[Claimed] = []
        due = [lane for lane in self._lanes if lane.due_at <= now and lane.kind in left]
        for equals in _by_priority(due):
            # Kinds of one priority share alike; a lower one gets what a higher one leaves.
            share = max(1, budget // len(equals))
            for lane in equals:
                limit = min(share, left[lane.kind], budget)
                if limit < 1:
                    continue
                taken = self._claim_lane(lane, limit)
                left[lane.kind] -= len(taken)
                budget -= len(taken)
                tasks += taken
        return tasks

    def _claim_lane(self, lane: Lane, limit: int) -> list[Claimed]:
        lost = range(self._lives(lane.kind))
        taken = store.claim(self._database, lane, self._stamp(), limit=limit, lost=lost)
        self._lanes.remove(lane)
        if len(taken) == limit:
            # On from here: what lies before is claimed, and stepping over it costs. A row that
            # comes in late before this place is found when the lanes are next looked at.
            self._lanes.append(lane._replace(due_at=taken[-1].due_at))
        return taken

    def _claim_alone(self) -> list[Claimed]:
        now = self._clock.now()
        for lane in store.lanes(self._database, self._kinds):
            if lane.due_at <= now:
                lost = range(self._lives(lane.kind), store.ENDLESS)
                taken = store.claim(self._database, lane, self._stamp(), limit=1, lost=lost)
                if taken:
                    return taken
        return []

    def _lives(self, kind: str) -> int:
        """Rows that were lost at least this often run alone."""
        return max(1, self._kinds[kind].max_lost - 1)

    def _stamp(self) -> Stamp:
        now = self._clock.now()
        return Stamp(self._numbers.take()[0], self._worker(), now, now + self._lease)


def _by_priority(lanes: list[Lane]) -> list[list[Lane]]:
    """The lanes of each priority, highest first, and among equals the longest due first."""
    ordered = sorted(lanes, key=lambda lane: (-lane.priority, lane.due_at))
    return [list(equals) for _, equals in groupby(ordered, key=lambda lane: lane.priority)]

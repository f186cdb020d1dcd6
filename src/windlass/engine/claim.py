"""The seam where rows come from: a claim gives a worker rows that are due and nobody else's.

Two ways belong behind it. The *written claim* here stamps rows before they run: any worker may take
any row. What takes its place must keep its promises: a row is given to one living worker at a time,
and what comes back is everything that run and finish need.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Protocol

from sqlalchemy import Connection

from windlass.clock import Clock
from windlass.declare.kind import Kind
from windlass.engine.gate import Allowed, Gate
from windlass.engine.hold import Room
from windlass.model.task import Claimed
from windlass.store import claim as store
from windlass.store.database import Database
from windlass.store.dialect.base import ENDLESS, Lane, Most, Stamp
from windlass.store.finish import Batch
from windlass.store.number import Numbers

CLAIM_AT_MOST = 1_000
RESCUE_AT_MOST = 500
LOOK_AGAIN_AFTER = 0.25
PROBE_AGAIN_AFTER = 1.0


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
    # How long until a kind may go on that only its rate holds back.
    held_for: float | None = None
    # The rows whose end decides about an open breaker.
    probes: set[int] = field(default_factory=set)


class Claims(Protocol):
    """Where a worker's rows come from."""

    def take(self, room: Room) -> Taken:
        """Due rows that fit into `room`, highest priority and then oldest first."""
        ...

    def look_again(self) -> None:
        """Something new was enqueued: look before taking what was known."""
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
        gate: Gate,
        once: bool = False,
    ) -> None:
        self._database = database
        self._kinds = kinds
        self._clock = clock
        self._numbers = numbers
        self._worker = worker
        self._lease = lease
        self._bury = bury
        self._gate = gate
        self._refused: set[str] = set()
        self._probes: set[int] = set()
        self._found_none: dict[str, float] = {}
        # From then on, items that were visited are not visited again: for a drain, which ends.
        self._once_since = clock.now() if once else None
        self._lanes: list[Lane] = []
        self._looked_at = 0.0

    def take(self, room: Room) -> Taken:
        if not room.kinds:
            return Taken([], [])
        if time.monotonic() - self._looked_at < LOOK_AGAIN_AFTER:
            tasks = self._claim(room)
            held_for = self._gate.seconds_until(self._refused)
            if tasks or held_for is not None:
                return Taken(tasks, [], held_for=held_for, probes=self._probes)
        lanes = self._look()
        tasks = self._claim(room)
        held_for = self._gate.seconds_until(self._refused)
        if tasks:
            return Taken(tasks, [], held_for=held_for, probes=self._probes)
        now = self._clock.now()
        mine = [lane for lane in lanes if lane.kind in room.kinds]
        due = [lane for lane in mine if self._is_due(lane, now) and lane.kind not in self._refused]
        later = [self._seconds_until(lane, now) for lane in mine if not self._is_due(lane, now)]
        return Taken(
            [],
            [],
            next_due_in=min(later, default=None),
            some_could_not_be_had=bool(due),
            some_wait_to_run_alone=bool(due)
            and store.some_wait_to_run_alone(self._database, due, self._lives, now=now),
            held_for=held_for,
        )

    def _is_due(self, lane: Lane, now: int) -> bool:
        return lane.due_at <= self._due_until(lane.kind, now)

    def _due_until(self, kind: str, now: int) -> int:
        until = self._kinds[kind].due_until(now)
        period = self._kinds[kind].period
        if self._once_since is None or period is None:
            return until
        return min(until, self._once_since + period.shortest - 1)

    def _seconds_until(self, lane: Lane, now: int) -> float:
        return max(0, self._kinds[lane.kind].taken_at(lane.due_at) - now) / 1e6

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
            rest=self._rest(),
            bury=self._bury,
        )
        if rescued.put_back:
            self.look_again()
        tasks, self._probes = rescued.again, set()
        if alone and not tasks:
            tasks = self._claim_alone()
        return Taken(
            tasks,
            rescued.poison,
            some_wait_to_run_alone=rescued.some_wait_to_run_alone,
            probes=self._probes,
        )

    def _rest(self) -> dict[str, int]:
        """The kinds whose rows are not taken over at once, and when their rows are due instead."""
        now = self._clock.now()
        return {
            name: kind.due_until(now)
            for name, kind in self._kinds.items()
            if not self._gate.is_free(name)
        }

    def _claim(self, room: Room) -> list[Claimed]:
        self._refused, self._probes = set(), set()
        now = self._clock.now()
        left = dict(room.kinds)
        budget = min(CLAIM_AT_MOST, room.total)
        tasks: list[Claimed] = []
        due = [lane for lane in self._lanes if lane.kind in left and self._is_due(lane, now)]
        for equals in _by_priority(due):
            # Kinds of one priority share alike; a lower one gets what a higher one leaves.
            share = max(1, budget // len(equals))
            for lane in equals:
                limit = min(share, left[lane.kind], budget)
                if limit < 1:
                    continue
                try:
                    taken = self._claim_through_gate(lane, limit)
                except Exception:
                    if tasks:
                        # The next time meets it again; what was claimed is ours to run.
                        return tasks
                    raise
                left[lane.kind] -= len(taken)
                budget -= len(taken)
                tasks += taken
        return tasks

    def _claim_through_gate(self, lane: Lane, limit: int) -> list[Claimed]:
        found_none = self._found_none.get(lane.kind, 0.0)
        if time.monotonic() - found_none < PROBE_AGAIN_AFTER:
            self._refused.add(lane.kind)
            return []
        allowed = self._gate.allow(lane.kind, limit)
        if allowed.most < 1:
            self._refused.add(lane.kind)
            return []
        taken = self._claim_lane(lane, allowed.most)
        self._gate.took(lane.kind, allowed, len(taken))
        if allowed.is_probe:
            self._probes.update(row.id for row in taken)
            if not taken:
                # What is due may have to run alone, and then probes by that way.
                self._found_none[lane.kind] = time.monotonic()
        return taken

    def _claim_lane(self, lane: Lane, limit: int) -> list[Claimed]:
        period = self._kinds[lane.kind].period
        limit = limit if period is None else min(limit, period.batch)
        stamp = self._stamp()
        taken = store.claim(self._database, lane, stamp, self._most(lane, limit, stamp.now))
        self._lanes.remove(lane)
        if len(taken) == limit:
            # On from here: what lies before is claimed, and stepping over it costs. A row that
            # comes in late before this place is found when the lanes are next looked at.
            self._lanes.append(lane._replace(due_at=taken[-1].due_at))
        return taken

    def _claim_alone(self) -> list[Claimed]:
        now = self._clock.now()
        for lane in store.lanes(self._database, self._kinds):
            allowed = self._gate.allow(lane.kind, 1) if self._is_due(lane, now) else Allowed(0)
            if allowed.most:
                lost = range(self._lives(lane.kind), ENDLESS)
                most = Most(1, self._due_until(lane.kind, now), lost)
                taken = store.claim(self._database, lane, self._stamp(), most)
                self._gate.took(lane.kind, allowed, len(taken))
                if allowed.is_probe:
                    self._probes.update(row.id for row in taken)
                if taken:
                    return taken
        return []

    def _most(self, lane: Lane, limit: int, now: int) -> Most:
        return Most(limit, self._due_until(lane.kind, now), range(self._lives(lane.kind)))

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

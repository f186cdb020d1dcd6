"""How many rows a busy owner offers to other workers.

An owner does not know how fast the others run these rows. So it first offers as many as they can
start at once, and doubles the number each time they took all of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from windlass import telemetry
from windlass.core.fetch.rows import Rows
from windlass.core.fetch.store import offer
from windlass.core.limit.gate import Gate
from windlass.core.ring.ring import Ring, Share
from windlass.core.ring.store import worker
from windlass.core.ring.store.worker import WorkerView
from windlass.core.run.in_flight import InFlight
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.database.dialect.base import Lane, Most

HELP_AGAIN_AFTER = 0.25
# A kind that ends this many runs a second is not worth a claim.
FAST = 1_000
MOST_OFFERED = 1_000
# After this time, every heartbeat that an owner sees is newer than its delay.
BEHIND_SECONDS = 1.2
# Stop offering when no worker had time for the offers for this long.
PATIENCE_SECONDS = 2.5


class Due(Protocol):
    """Which rows may be taken now."""

    def is_due(self, lane: Lane, now: int) -> bool: ...

    def most(self, lane: Lane, limit: int, now: int, *, buckets: range | None = None) -> Most: ...


@dataclass
class Level:
    """How many rows of a kind to keep on offer, and when another worker last had time for them."""

    rows: int
    wanted_at: float
    # The size of the last offer.
    made: int = 0


@dataclass
class Helping:
    """The kinds that an owner is behind with. Times are monotonic seconds."""

    _behind: dict[str, float] = field(default_factory=dict)
    _levels: dict[str, Level] = field(default_factory=dict)

    def caught_up(self, kinds: Iterable[str]) -> None:
        """All waiting rows of these kinds can start now."""
        for kind in kinds:
            self._behind.pop(kind, None)
            self._levels.pop(kind, None)

    def behind(self, kinds: set[str], now: float) -> list[str]:
        """The busy kinds that this owner has been behind with for a while."""
        self.caught_up(self._behind.keys() - kinds)
        for kind in kinds:
            self._behind.setdefault(kind, now)
        return [kind for kind, since in self._behind.items() if now - since >= BEHIND_SECONDS]

    def wanted(self, kind: str, *, idle: int, offered: int, now: float) -> int:
        """How many more rows to offer: others have time for `idle`, and `offered` rows wait."""
        level = self._levels.get(kind)
        if level is None:
            if idle < 1:
                return 0
            level = self._levels[kind] = Level(min(idle, MOST_OFFERED), now)
        all_taken = level.made > 0 and offered == 0
        level.made = 0
        if all_taken:
            level.rows = min(2 * level.rows, MOST_OFFERED)
        if idle or all_taken:
            level.wanted_at = now
        elif now - level.wanted_at > PATIENCE_SECONDS:
            del self._levels[kind]
            return 0
        return max(0, level.rows - offered)

    def made(self, kind: str, count: int) -> None:
        """`count` rows were offered."""
        if kind in self._levels:
            self._levels[kind].made = count


class Offers:
    """Offers rows that this worker has no time for to idle workers."""

    def __init__(
        self,
        database: Database,
        rows: Rows,
        in_flight: InFlight,
        ring: Ring,
        *,
        gate: Gate,
        due: Due,
    ) -> None:
        self._database = database
        self._rows = rows
        self._in_flight = in_flight
        self._ring = ring
        self._gate = gate
        self._due = due
        self._helping = Helping()
        self._helped_at = 0.0

    def caught_up(self, kinds: Iterable[str]) -> None:
        """Nothing of these kinds waits but what can be started here."""
        self._helping.caught_up(kinds)

    def help(self, share: Share, *, now: int) -> None:
        """Offer rows of kinds that this worker is behind with, if there are other workers."""
        elapsed = time.monotonic()
        if elapsed - self._helped_at < HELP_AGAIN_AFTER:
            return
        self._helped_at = elapsed
        slow = {
            name
            for name, load in self._in_flight.loads.items()
            if (load.running or load.queued) and load.per_second < FAST
        }
        behind = self._helping.behind(slow, elapsed)
        if behind and self._ring.has_others:
            self._help_with(behind, share, now=now)

    def _help_with(self, kinds: list[str], share: Share, *, now: int) -> None:
        def look(connection: Connection) -> tuple[list[Lane], dict[str, int], list[WorkerView]]:
            lanes = self._database.dialect.lanes(connection, kinds)
            return lanes, offer.counts(connection), worker.listing(connection)

        lanes, offered, workers = self._database.read(look)
        others = [view for view in workers if view.id != share.worker]
        free = [
            lane
            for lane in lanes
            if self._in_flight.loads[lane.kind].is_open and self._gate.is_free(lane.kind)
        ]
        for kind in {lane.kind for lane in free}:
            idle = sum(view.idle for view in others if kind in view.kinds)
            waiting = offered.get(kind, 0)
            wanted = self._helping.wanted(kind, idle=idle, offered=waiting, now=self._helped_at)
            if wanted:
                of_kind = [lane for lane in free if lane.kind == kind]
                self._helping.made(kind, self._offer(of_kind, wanted, share, now=now))

    def _offer(self, lanes: list[Lane], count: int, share: Share, *, now: int) -> int:
        """Offer up to `count` rows of a kind's lanes, the lowest priority first; how many."""
        kind, offered = lanes[0].kind, 0
        load = self._in_flight.loads[kind]
        # Keep the rows that can run here within a second.
        own = int(load.per_second)
        self._in_flight.trim(kind, own)
        spare = max(0, own - load.queued)
        for lane in sorted(lanes, key=lambda lane: lane.priority):
            if not self._due.is_due(lane, now):
                continue
            begin = lane._replace(due_at=max(lane.due_at, share.careful_to + 1))
            for buckets in share.runs:
                held = self._in_flight.held
                left = count - offered
                most = self._due.most(lane, len(held) + spare + left, now, buckets=buckets)
                if left > 0:
                    made = self._rows.offer(
                        share.worker, begin, most, unless=held, spare=spare, count=left
                    )
                    offered += len(made.offered)
                    spare -= made.spared
        if offered:
            telemetry.emit("ring.offered", worker=share.worker, kind=kind, rows=offered)
        return offered

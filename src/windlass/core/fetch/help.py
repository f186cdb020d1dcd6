"""How many rows a busy owner offers to other workers.

An owner does not know how fast the others run these rows. So it first offers as many as they would
start soon if they were as fast as itself, and doubles the number each time they took all of them.

At first it does not even know whether they are still idle: their heartbeats may be older than the
burst that made everyone busy. Until they are newer, it offers one row to each idle worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from windlass import telemetry
from windlass.core.fetch import store as fetch_store
from windlass.core.fetch.claim import Rows
from windlass.core.limit.gate import Gate
from windlass.core.ring import store as ring_store
from windlass.core.ring.ring import Share
from windlass.core.ring.store import WorkerView
from windlass.core.run.in_flight import InFlight
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.database.dialect.base import Most, Tier

HELP_AGAIN_AFTER = 0.25
# Look this often for rows to offer while none were due at the last look.
LOOK_AGAIN_AFTER = 0.5
# A kind that ends this many runs a second is not worth a claim.
FAST = 1_000
MOST_OFFERED = 1_000
BEHIND_SECONDS = 0.25
# After this time, every heartbeat that an owner sees is newer than its delay.
KNOWN_SECONDS = 1.2
# An owner keeps the rows that it can run within this time.
KEEP_SECONDS = 0.5
# Stop offering when no worker had time for the offers for this long.
PATIENCE_SECONDS = 2.5


class Due(Protocol):
    """Which rows may be taken now."""

    def is_due(self, tier: Tier, now: int) -> bool: ...

    def most(self, tier: Tier, limit: int, now: int, *, buckets: range | None = None) -> Most: ...


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

    # The kinds that had as many due rows as there was room for, and perhaps more.
    full: set[str] = field(default_factory=set)
    _behind: dict[str, float] = field(default_factory=dict)
    _levels: dict[str, Level] = field(default_factory=dict)

    def fetched(self, *, all_of: Iterable[str], some_of: Iterable[str]) -> None:
        """All due rows of some kinds can start now; others may have more than was fetched."""
        self.full.update(some_of)
        self._forget(all_of)

    def behind(self, kinds: set[str], now: float) -> dict[str, float]:
        """The busy kinds that this owner has been behind with for a moment, and for how long."""
        self._forget(self._behind.keys() - kinds)
        for kind in kinds:
            self._behind.setdefault(kind, now)
        seconds = {kind: now - since for kind, since in self._behind.items()}
        return {kind: late for kind, late in seconds.items() if late >= BEHIND_SECONDS}

    @property
    def is_behind(self) -> bool:
        return bool(self._behind or self.full)

    def _forget(self, kinds: Iterable[str]) -> None:
        for kind in kinds:
            self.full.discard(kind)
            self._behind.pop(kind, None)
            self._levels.pop(kind, None)

    def wanted(self, kind: str, *, idle: int, offered: int, now: float) -> int:
        """How many more rows to offer: others have time for `idle`, and `offered` rows wait."""
        level = self._levels.get(kind)
        if level is None:
            if idle < 1:
                return 0
            level = self._levels[kind] = Level(min(idle, MOST_OFFERED), now)
        all_taken = level.made > 0 and offered == 0
        level.made = 0
        doubled = 2 * level.rows if all_taken else level.rows
        level.rows = min(max(doubled, idle), MOST_OFFERED)
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
        *,
        gate: Gate,
        due: Due,
        read_again: Callable[[], None],
    ) -> None:
        self._database = database
        self._rows = rows
        self._in_flight = in_flight
        self._gate = gate
        self._due = due
        # Call it when rows that were read are forgotten.
        self._read_again = read_again
        self._helping = Helping()
        self._helped_at = 0.0
        self._pause = HELP_AGAIN_AFTER

    def fetched(self, *, all_of: Iterable[str], some_of: Iterable[str]) -> None:
        """All due rows of some kinds can start now; others may have more than was fetched."""
        self._helping.fetched(all_of=all_of, some_of=some_of)

    @property
    def again_in(self) -> float:
        """Seconds until `help` has something to do."""
        if not self._helping.is_behind:
            return float("inf")
        return max(0.01, self._helped_at + self._pause - time.monotonic())

    def help(self, share: Share, *, now: int) -> None:
        """Offer rows of kinds that this worker is behind with."""
        elapsed = time.monotonic()
        if elapsed - self._helped_at < HELP_AGAIN_AFTER:
            return
        self._helped_at, self._pause = elapsed, HELP_AGAIN_AFTER
        # When all runs have ended at once, nothing runs, but rows may still wait.
        slow = {
            name
            for name, load in self._in_flight.loads.items()
            if (load.running or load.queued or name in self._helping.full)
            and load.per_second < FAST
        }
        behind = self._helping.behind(slow, elapsed)
        if behind:
            self._help_with(behind, share, now=now)

    def _help_with(self, kinds: dict[str, float], share: Share, *, now: int) -> None:
        def look(connection: Connection) -> tuple[list[Tier], dict[str, int], list[WorkerView]]:
            tiers = self._database.dialect.tiers(connection, kinds)
            return tiers, fetch_store.offered_counts(connection), ring_store.workers(connection)

        tiers, offered, workers = self._database.read(look)
        others = [view for view in workers if view.id != share.worker]
        for kind, seconds in kinds.items():
            if not (self._in_flight.loads[kind].is_open and self._gate.is_free(kind)):
                continue
            idle = self._idle_for(kind, others, is_known=seconds >= KNOWN_SECONDS)
            waiting = offered.get(kind, 0)
            wanted = self._helping.wanted(kind, idle=idle, offered=waiting, now=self._helped_at)
            if wanted:
                self._trim(kind)
                due = [each for each in tiers if each.kind == kind and self._due.is_due(each, now)]
                self._helping.made(kind, self._offer(due, wanted, share, now=now) if due else 0)
        if not any(self._due.is_due(tier, now) for tier in tiers):
            self._pause = LOOK_AGAIN_AFTER

    def _idle_for(self, kind: str, others: list[WorkerView], *, is_known: bool) -> int:
        """How many rows idle workers would run until the next offer, if they were as fast."""
        slots = [view.idle for view in others if view.idle and kind in view.kinds]
        if not is_known:
            return len(slots)
        load = self._in_flight.loads[kind]
        return sum(slots) * max(1, int(load.per_second * HELP_AGAIN_AFTER / load.limit))

    def _trim(self, kind: str) -> None:
        """Forget the rows that cannot start here soon, so that others may have them."""
        gone = self._in_flight.trim(kind, self._own(kind))
        if gone:
            self._read_again()
        claimed = [task for task in gone if not task.is_read]
        if claimed:
            # The owners of their buckets read or offer them.
            self._rows.put_back(claimed)

    def _own(self, kind: str) -> int:
        """How many rows this worker keeps for itself."""
        return int(self._in_flight.loads[kind].per_second * KEEP_SECONDS)

    def _offer(self, tiers: list[Tier], count: int, share: Share, *, now: int) -> int:
        """Offer up to `count` rows of a kind's tiers, the lowest priority first; how many."""
        kind, offered = tiers[0].kind, 0
        spare = max(0, self._own(kind) - self._in_flight.loads[kind].queued)
        for tier in sorted(tiers, key=lambda tier: tier.priority):
            begin = tier._replace(due_at=max(tier.due_at, share.careful_to + 1))
            for buckets in share.runs:
                held = self._in_flight.rows.ids
                left = count - offered
                most = self._due.most(tier, len(held) + spare + left, now, buckets=buckets)
                if left > 0:
                    made = self._rows.offer(
                        share.worker, begin, most, unless=held, spare=spare, count=left
                    )
                    offered += len(made.offered)
                    spare -= made.spared
        if offered:
            telemetry.emit("ring.offered", worker=share.worker, kind=kind, rows=offered)
        return offered

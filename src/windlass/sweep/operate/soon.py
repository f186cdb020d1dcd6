"""Asking for visits of single keys without waiting: one read, and one write if it is new."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.source.contract import Key, encode_key
from windlass.sweep.store import request as store
from windlass.sweep.store.sweep import VISITS
from windlass.value.period import VisitSoon, is_fresh

# How many visits of one sweep may wait.
MOST_PENDING = 10_000
COUNT_SECONDS = 1.0
# How often a process says again that its visits ask how fresh keys are.
SAY_SECONDS = 600.0


@dataclass
class PendingCount:
    """How many visits of a sweep wait, as this process counted them last."""

    count: int = 0
    counted_at: float = float("-inf")


@dataclass(eq=False)
class AskedVisits:
    """What this process knows of the visits that it asks for, by sweep."""

    pending: dict[str, PendingCount] = field(default_factory=dict)
    # The longest `fresh` that it asked for, and when it said so.
    said: dict[str, tuple[int, float]] = field(default_factory=dict)

    def ask(self, shard: Shard, kind: Kind, key: Key, *, fresh: int | None) -> VisitSoon:
        """Ask for a visit of a key, unless it is asked for, runs, or is fresh."""
        name, now = kind.name, shard.clock.now()
        text = encode_key(key, what=f"sweep {name!r}")
        shard.database.schema.need(VISITS, "visit_soon")
        found = shard.database.read(lambda connection: store.state_of(connection, name, text))
        if found.is_asked:
            return VisitSoon.PENDING
        if fresh is not None and is_fresh(found.last_at, fresh, now):
            return VisitSoon.FRESH
        if self._is_full(shard, name):
            return VisitSoon.FULL

        def work(connection: Connection) -> None:
            store.ask(connection, shard.database.dialect, name, key=text, now=now, fresh=fresh)

        shard.database.write(work)
        self.pending[name].count += 1
        shard.bell.ring_here()
        return VisitSoon.ASKED

    def want_fresh(self, shard: Shard, kind: Kind, fresh: int | None) -> None:
        """Let rounds write down what they do, as visits ask how fresh it is."""
        if not fresh or not shard.database.schema.has(VISITS):
            return
        said, at = self.said.get(kind.name, (0, float("-inf")))
        if fresh <= said and time.monotonic() - at < SAY_SECONDS:
            return
        name, now = kind.name, shard.clock.now()
        shard.database.write(
            lambda connection: store.want_fresh(
                connection, shard.database.dialect, name, fresh=fresh, now=now
            )
        )
        self.said[name] = max(fresh, said), time.monotonic()

    def _is_full(self, shard: Shard, name: str) -> bool:
        known = self.pending.setdefault(name, PendingCount())
        if time.monotonic() - known.counted_at >= COUNT_SECONDS:
            known.counted_at = time.monotonic()
            known.count = shard.database.read(
                lambda connection: store.pending(connection, name, most=MOST_PENDING)
            )
        return known.count >= MOST_PENDING

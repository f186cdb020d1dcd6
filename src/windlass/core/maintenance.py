"""Maintenance: prunes what has had its time, beside the work and never in its way."""

from __future__ import annotations

import random

from windlass import telemetry
from windlass.clock import Clock
from windlass.core.finish.store import history
from windlass.core.loop import Loop
from windlass.core.ring.store import worker
from windlass.core.task.store import task
from windlass.database.database import Database
from windlass.flow.store import flow
from windlass.rolling.store import item as rolling
from windlass.sweep.store import failed_item as sweep_failure

PAUSE_SECONDS = 10.0
SHORT_PAUSE_SECONDS = 0.05
PRUNE_AT_ONCE = 1_000
ADD_UP_AT_ONCE = 10_000
HISTORY_EVERY = 30


class Maintenance(Loop):
    """Deletes ended rows in small batches; now and then also old history."""

    name = "upkeep"

    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__()
        self._database = database
        self._clock = clock
        self._ticks = 0

    def tick(self) -> float:
        now = self._clock.now()
        pruned = self._database.write(
            lambda connection: task.prune(connection, now=now, limit=PRUNE_AT_ONCE), tries=2
        )
        pruned += self._database.write(
            lambda connection: flow.prune(connection, now=now, limit=PRUNE_AT_ONCE), tries=2
        )
        if pruned:
            telemetry.emit("prune.done", rows=pruned)
        if pruned >= PRUNE_AT_ONCE:
            return SHORT_PAUSE_SECONDS
        if self._ticks % HISTORY_EVERY == 0:
            self._database.write(lambda connection: history.prune(connection, now=now), tries=2)
            self._database.write(lambda connection: worker.forget(connection, now=now), tries=2)
            self._database.write(
                lambda connection: sweep_failure.prune(connection, now=now), tries=2
            )
        is_more = self._database.write(
            lambda connection: rolling.add_up(connection, limit=ADD_UP_AT_ONCE), tries=2
        )
        self._ticks += 1
        if is_more:
            return SHORT_PAUSE_SECONDS
        return PAUSE_SECONDS * random.uniform(0.8, 1.2)

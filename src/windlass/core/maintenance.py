"""Maintenance: prunes old rows in small transactions, and notices other versions of the tables.

It also records steps of the database's clock, before it prunes by the new time.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from windlass import telemetry
from windlass.clock import Clock
from windlass.core.alert import store as alert
from windlass.core.clock import step
from windlass.core.clock import store as clock_store
from windlass.core.face import Chore, Faces, Tidying
from windlass.core.finish import store as finish_store
from windlass.core.idempotency import store as idempotency
from windlass.core.limit.permit import store as permit_store
from windlass.core.loop import Loop
from windlass.core.ring import store as ring_store
from windlass.core.task.store import gone, progress, task
from windlass.database.connection import Connection
from windlass.database.database import Database, Numbers

PAUSE_SECONDS = 10.0
SHORT_PAUSE_SECONDS = 0.05
# What ended at the moment of a step back may be written after the first, with a time from before.
BACKS = 2
PRUNE_AT_ONCE = 1_000
# Chores that are not `is_often` run at every 30th tick.
RARE_TICKS = 30


def _prune_tasks(tidying: Tidying) -> int:
    connection, now = tidying.connection, tidying.now
    ids = task.prune(connection, now=now, limit=tidying.limit)
    gone.remember(connection, tidying.dialect, ids, now=now)
    tidying.faces.pruned(connection, ids)
    return len(ids)


def _prune_traces(tidying: Tidying) -> int:
    if not tidying.dialect.keeps_traces:
        return 0
    return gone.prune(tidying.connection, now=tidying.now, limit=tidying.limit)


def _prune_steps(tidying: Tidying) -> int:
    if not tidying.dialect.has_tables(step.TABLES):
        return 0
    return clock_store.prune(tidying.connection, now=tidying.now)


def _prune_permits(tidying: Tidying) -> int:
    if not tidying.dialect.has_tables(permit_store.MIGRATION):
        return 0
    return permit_store.forget(tidying.connection, limit=tidying.limit)


def _prune_progress(tidying: Tidying) -> int:
    if not tidying.dialect.has_tables(progress.MIGRATION):
        return 0
    return progress.prune(tidying.connection, limit=tidying.limit)


OWN = (
    Chore(_prune_tasks, is_often=True),
    Chore(_prune_traces, is_often=True, is_prune=False),
    Chore(lambda tidying: finish_store.prune_history(tidying.connection, now=tidying.now)),
    Chore(lambda tidying: alert.prune(tidying.connection, now=tidying.now)),
    Chore(lambda tidying: ring_store.forget_workers(tidying.connection, now=tidying.now)),
    Chore(idempotency.prune, is_often=True),
    Chore(_prune_steps),
    Chore(_prune_permits),
    Chore(_prune_progress),
)


class Maintenance(Loop):
    """Deletes ended rows often, and old history rarely."""

    name = "maintenance"
    # A worker that has just joined cannot notice a step of a moment ago. Others record it soon.
    first_pause = PAUSE_SECONDS

    def __init__(
        self,
        database: Database,
        clock: Clock,
        faces: Faces,
        *,
        numbers: Numbers,
        went_back: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._database = database
        self._clock = clock
        self._faces = faces
        self._numbers = numbers
        self._went_back = went_back
        # How often `went_back` has yet to return since the clock stepped back.
        self._backs = 0
        self._ticks = 0

    def tick(self) -> float:
        self._look_at_tables()
        if step.record(self._database, self._clock, self._numbers):
            self._backs = BACKS
        if self._backs:
            self._went_back()
            self._backs -= 1
        now = step.prune_time(self._database, self._clock)
        if now is None:
            return SHORT_PAUSE_SECONDS
        faces = self._faces.in_use(self._database).all
        chores = [*OWN, *(chore for face in faces for chore in face.maintenance)]
        often = [chore for chore in chores if chore.is_often]
        changed = [self._do(chore, now) for chore in often]
        pruned = sum(rows for rows, chore in zip(changed, often, strict=True) if chore.is_prune)
        if pruned:
            telemetry.emit("prune.done", rows=pruned)
        if any(rows >= PRUNE_AT_ONCE for rows in changed):
            return SHORT_PAUSE_SECONDS
        if self._ticks % RARE_TICKS == 0:
            for chore in chores:
                if not chore.is_often:
                    self._do(chore, now)
        self._ticks += 1
        return PAUSE_SECONDS * random.uniform(0.8, 1.2)

    def _look_at_tables(self) -> None:
        """Others may migrate them, or take a migration back, while this worker runs."""
        problem = self._database.schema.look().problem()
        if problem is not None:
            telemetry.emit("schema.refused", database=self._database.name, problem=problem)

    def _do(self, chore: Chore, now: int) -> int:
        def work(connection: Connection) -> int:
            return chore.work(
                Tidying(connection, self._database.dialect, self._faces, now, PRUNE_AT_ONCE)
            )

        return self._database.write(work, tries=2)

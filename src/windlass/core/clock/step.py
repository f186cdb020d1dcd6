"""What a process does about steps of the database's clock that it has noticed."""

from __future__ import annotations

from functools import partial

from windlass.clock import Clock
from windlass.core.clock import store
from windlass.database.database import Database, Numbers

# The migration that has the table of steps.
TABLES = "0004"


def record(database: Database, clock: Clock, numbers: Numbers) -> bool:
    """Record the steps that this process has noticed; returns whether one of them went back.

    Tables of release 0.1.0 have no place for them: then they stay pending, and nothing is pruned.
    """
    went_back = False
    if clock.pending and not database.schema.has(TABLES):
        return went_back
    for step in clock.pending:
        alert = numbers.take()[0]
        database.write(partial(store.record, step=step, alert=alert), tries=2)
        clock.recorded(step)
        went_back = went_back or step.by < 0
    return went_back


def prune_time(database: Database, clock: Clock) -> int | None:
    """What is older than this may be pruned; None while a step is not recorded.

    It is the time now, without what the clock has gained by steps. So nothing is pruned because
    of a step; what was written after it is kept that much longer.
    """
    # In this order: if the clock has stepped before `now`, the step is pending or recorded.
    now = clock.now()
    if clock.pending:
        return None
    return now - store.gained(database.read(store.steps)) if database.schema.has(TABLES) else now

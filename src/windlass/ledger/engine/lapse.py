"""The kind of task that gives back what is held when the hold ends; every worker runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

from windlass.clock import Clock, to_datetime
from windlass.core.task.kind import Kind, make_kind
from windlass.core.task.option import Options
from windlass.database.database import Database
from windlass.errors import DatabaseUnavailable, Snooze
from windlass.ledger.engine.execute import RequestExecutor
from windlass.ledger.model.ledger import LAPSE, DeductionStatus, Movement, Undo
from windlass.ledger.store import view as ledger_view

# The clocks of a worker and a database may differ by this much.
SKEW = timedelta(minutes=1)

Databases = Callable[[], Iterable[tuple[Database, Clock]]]


def lapse_kind(databases: Databases) -> Kind:
    """The kind of the tasks that end holds, whichever database has the deduction."""

    def lapse(deduction: str) -> None:
        # The task does not say which database has the deduction; try them all, also if one fails.
        problem: DatabaseUnavailable | None = None
        waits = False
        for database, clock in databases():
            try:
                waits |= _end(database, clock, deduction)
            except DatabaseUnavailable as found:
                problem = found
        if problem is not None:
            raise problem
        if waits:
            raise Snooze("1s")

    # It is tried until it succeeds.
    return make_kind(lapse, Options(name=LAPSE, retries=1_000, backoff="10s"))


def _end(database: Database, clock: Clock, deduction: str) -> bool:
    """End a hold that is over. Returns True if it ends soon by the clock of this database."""
    RequestExecutor(database, clock).execute([Undo(deduction, Movement.LAPSE)])
    found = database.read(
        lambda connection: ledger_view.deduction(connection, database.dialect, deduction)
    )
    if found is None or found.status is not DeductionStatus.HELD or found.hold_until is None:
        return False
    # A deduction with this id in another shard has its own task.
    return found.hold_until <= to_datetime(clock.now()) + SKEW

"""The kind that every worker serves: gives back what is held when the hold has lapsed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

from windlass.clock import Clock, to_datetime
from windlass.core.task.kind import Kind, Options, make_kind
from windlass.database.database import Database
from windlass.errors import DatabaseUnavailable, Snooze
from windlass.ledger.engine.execute import RequestExecutor
from windlass.ledger.engine.hold import LAPSE
from windlass.ledger.model.ledger import DeductionStatus, Movement, Undo
from windlass.ledger.store import view as ledger_view

# So far may the clocks of a worker and a database be apart.
SKEW = timedelta(minutes=1)

Places = Callable[[], Iterable[tuple[Database, Clock]]]


def lapse_kind(places: Places) -> Kind:
    """The kind of the tasks that end holds, in whichever of the databases the deduction is."""

    def lapse(deduction: str) -> None:
        # Which of the databases it is about is not known; one that is away keeps no other waiting.
        problem: DatabaseUnavailable | None = None
        waits = False
        for database, clock in places():
            try:
                waits |= _end(database, clock, deduction)
            except DatabaseUnavailable as found:
                problem = found
        if problem is not None:
            raise problem
        if waits:
            raise Snooze("1s")

    # It is tried until it succeeds, and leaves nothing behind.
    return make_kind(lapse, Options(name=LAPSE, retries=1_000, backoff="10s"))


def _end(database: Database, clock: Clock, deduction: str) -> bool:
    """End a hold that is over; whether it is nearly over by the clock of this database."""
    RequestExecutor(database, clock).execute([Undo(deduction, Movement.LAPSE)])
    found = database.read(
        lambda connection: ledger_view.deduction(connection, database.dialect, deduction)
    )
    if found is None or found.status is not DeductionStatus.HELD or found.hold_until is None:
        return False
    # Another deduction of this id, in another shard, has a task of its own.
    return found.hold_until <= to_datetime(clock.now()) + SKEW

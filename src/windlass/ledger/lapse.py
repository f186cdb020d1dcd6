"""The kind that every worker serves: gives back what is held when the hold has lapsed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from windlass.clock import Clock
from windlass.declare.kind import Kind, Options, make_kind
from windlass.errors import Snooze
from windlass.ledger.desk import Desk
from windlass.ledger.hold import LAPSE
from windlass.model.ledger import DeductionStatus, Movement, Undo
from windlass.store import ledger_view
from windlass.store.database import Database

Places = Callable[[], Iterable[tuple[Database, Clock]]]


def lapse_kind(places: Places) -> Kind:
    """The kind of the tasks that end holds, in whichever of the databases the deduction is."""

    def lapse(deduction: str) -> None:
        for database, clock in places():
            Desk(database, clock).carry_out([Undo(deduction, Movement.LAPSE)])
            if _is_held(database, deduction):
                # It is not over by this database's clock.
                raise Snooze("1s")

    # It is tried until it succeeds, and leaves nothing behind.
    return make_kind(lapse, Options(name=LAPSE, retries=1_000, backoff="10s"))


def _is_held(database: Database, deduction: str) -> bool:
    found = database.read(
        lambda connection: ledger_view.deduction(connection, database.dialect, deduction)
    )
    return found is not None and found.status is DeductionStatus.HELD

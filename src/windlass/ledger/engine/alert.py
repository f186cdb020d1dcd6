"""The alert of the ledger: an audit that finds problems raises it, one that finds none ends it."""

from __future__ import annotations

from collections.abc import Sequence

from windlass import telemetry
from windlass.clock import Clock
from windlass.core.alert import store
from windlass.core.alert.model import Trouble, cause_of
from windlass.database.connection import Connection
from windlass.database.database import Database, Numbers, first_line, has_tables

WHAT = "ledger"
CACHE = "cache"
SHOWN = 3


def tell_audit(database: Database, clock: Clock, problems: Sequence[str]) -> None:
    """Raise or resolve the alert of the ledger; nothing is written if nothing has changed.

    What the audit found is more important than its alert: an error here is only told.
    """
    try:
        if problems:
            database.write(lambda connection: _raise(connection, database, clock, problems))
        elif database.read(_is_open):
            database.write(lambda connection: _resolve(connection, clock))
    except Exception as problem:
        telemetry.emit("alert.unwritten", what=WHAT, error=first_line(problem))


def tell_cache(database: Database, clock: Clock, lane: str, *, error: str | None) -> None:
    """Raise or resolve the alert of the cache of a hot lane."""
    try:
        if error is not None:
            database.write(
                lambda connection: _raise_cache(connection, database, clock, lane, error)
            )
        elif database.read(lambda connection: _is_open(connection, CACHE, lane)):
            text = f"the cache of the hot lane {lane} answers again"
            database.write(
                lambda it: store.resolve(it, CACHE, "", lane, text=text, now=clock.now())
            )
    except Exception as problem:
        telemetry.emit("alert.unwritten", what=CACHE, error=first_line(problem))


def _raise_cache(
    connection: Connection, database: Database, clock: Clock, lane: str, error: str
) -> None:
    text = f"hot lane {lane}: {error}; see to the cache, or: windlass ledger recall {lane}"
    number = Numbers(database).take(inside=connection)[0]
    store.raise_alert(connection, number, Trouble(CACHE, "", text, lane), now=clock.now())


def _raise(
    connection: Connection, database: Database, clock: Clock, problems: Sequence[str]
) -> None:
    listed = "; ".join(problems[:SHOWN])
    more = f"; and {len(problems) - SHOWN:,} more" if len(problems) > SHOWN else ""
    count = "1 problem" if len(problems) == 1 else f"{len(problems):,} problems"
    text = f"an audit of the ledger found {count}: {listed}{more}; see: windlass ledger audit"
    number = Numbers(database).take(inside=connection)[0]
    store.raise_alert(connection, number, Trouble(WHAT, "", text), now=clock.now())


def _is_open(connection: Connection, what: str = WHAT, subject: str = "") -> bool:
    if not has_tables(connection, store.TABLES):
        return False
    return cause_of(what, "", subject) in store.open_causes(connection)


def _resolve(connection: Connection, clock: Clock) -> None:
    text = "an audit of the ledger found no problem"
    store.resolve(connection, WHAT, "", text=text, now=clock.now())

"""What an audit found becomes an alert, which the next audit without problems resolves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from windlass.clock import Clock
from windlass.core.alert.model import Trouble, cause_of
from windlass.core.alert.store import TABLES, keep_alert, open_causes, resolve
from windlass.database.connection import Connection, has_tables
from windlass.database.database import DATABASE_ERRORS, Database, Numbers

LONGEST_PROBLEM = 300


def report(database: Database, clock: Clock, problems: Sequence[str]) -> None:
    """Raise or resolve the alert of the ledger. An auditor who may only read changes nothing."""
    with suppress(*DATABASE_ERRORS):
        if problems:
            trouble = Trouble("ledger", "", _text(problems))
            number = Numbers(database).take()[0]
            database.write(lambda found: keep_alert(found, number, trouble, now=clock.now()))
        elif database.read(_is_raised):
            text = "an audit found no problem"
            database.write(lambda found: resolve(found, "ledger", "", text=text, now=clock.now()))


def _is_raised(connection: Connection) -> bool:
    return has_tables(connection, TABLES) and cause_of("ledger", "") in open_causes(connection)


def _text(problems: Sequence[str]) -> str:
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    found = f"{problems[0][:LONGEST_PROBLEM]}{more}"
    return f"an audit of the ledger found: {found}; see: windlass ledger audit"

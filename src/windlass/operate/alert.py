"""Alerts: what a person should know."""

from __future__ import annotations

from windlass.store import history
from windlass.store.database import Database
from windlass.store.history import AlertView


def listing(database: Database, *, limit: int) -> list[AlertView]:
    """The last alerts, newest first."""
    return database.read(lambda connection: history.alerts(connection, limit=limit))

"""The statements that must differ between the databases, behind one contract."""

from __future__ import annotations

from sqlalchemy import URL

from windlass.database.dialect.base import Dialect, Lane
from windlass.database.dialect.mysql import MySQL
from windlass.database.dialect.postgresql import PostgreSQL
from windlass.database.dialect.sqlite import SQLite

__all__ = ["Dialect", "Lane", "dialect_of"]


def dialect_of(url: URL) -> Dialect:
    """The dialect for a normalised URL."""
    backend = url.drivername.split("+")[0]
    if backend == "postgresql":
        return PostgreSQL()
    if backend == "sqlite":
        return SQLite()
    return MySQL()

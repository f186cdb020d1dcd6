"""What differs between the databases: the contract, and per-database values for other modules."""

from __future__ import annotations

from sqlalchemy import URL

from windlass.database.dialect.base import Dialect, Lane
from windlass.database.dialect.choice import PerDialect, force_index
from windlass.database.dialect.mysql import MySQL
from windlass.database.dialect.postgresql import PostgreSQL
from windlass.database.dialect.sqlite import SQLite

__all__ = ["Dialect", "Lane", "PerDialect", "dialect_of", "force_index"]


def dialect_of(url: URL) -> Dialect:
    """The dialect for a normalised URL."""
    backend = url.drivername.split("+")[0]
    if backend == "postgresql":
        return PostgreSQL()
    if backend == "sqlite":
        return SQLite()
    return MySQL()

"""SQLite: write-ahead log, one writer at a time, several processes."""

from windlass.database.dialect.sqlite.server import BUSY_SECONDS
from windlass.database.dialect.sqlite.task import SQLite

__all__ = ["BUSY_SECONDS", "SQLite"]

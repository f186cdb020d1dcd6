"""The log of migrations, and the row that older code reads: the statements that write them."""

from __future__ import annotations

from sqlalchemy import Delete, Insert, TextClause, Update, delete, insert, text, update
from sqlalchemy.schema import CreateTable, ExecutableDDLElement

from windlass.database.schema import migration as log
from windlass.database.version import version_row

Statement = ExecutableDDLElement | TextClause | Insert | Update | Delete

TABLES = (version_row, log)

MYSQL_NOW = "timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))"
# The time, in microseconds.
NOW = {
    "sqlite": "cast((julianday('now') - 2440587.5) * 86400000000 as integer)",
    "postgresql": "cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)",
    "mysql": MYSQL_NOW,
    "mariadb": MYSQL_NOW,
}


class Log:
    """Statements that write down how far the tables are."""

    def __init__(self, server: str) -> None:
        self._now = text(NOW[server])

    def began(self, version: str) -> Statement:
        return insert(log).values(version=version, began_at=self._now)

    def ended(self, version: str) -> Statement:
        return update(log).where(log.c.version == version).values(ended_at=self._now)

    def made(self, version: str) -> Statement:
        """It began and ended."""
        return insert(log).values(version=version, began_at=self._now, ended_at=self._now)

    def reopened(self, version: str) -> Statement:
        """It began, and is not done any more."""
        return update(log).where(log.c.version == version).values(ended_at=None)

    def forgotten(self, version: str) -> Statement:
        return delete(log).where(log.c.version == version)

    @staticmethod
    def first_known_from(version: str) -> Statement:
        """Code must know this version, from the first migration on."""
        return insert(version_row).values(version_num=version)

    @staticmethod
    def known_from(version: str) -> Statement:
        """Code must know this version from now on."""
        return update(version_row).values(version_num=version)

    @staticmethod
    def create() -> list[Statement]:
        """Create both tables."""
        return [CreateTable(table) for table in TABLES]

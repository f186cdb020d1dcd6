"""The version of the tables: what this Windlass knows, what a database has, and who fits whom.

Each migration has a number. Two tables tell how far a database is:

* `windlass_version` has one row: the number that code must know to work with these tables. Release
  0.1.0 has no other test, so an upgrade that only adds leaves this row alone.
* `windlass_migration` has a row for each migration that began, and when it ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError

from windlass import telemetry
from windlass.database.schema import migration
from windlass.errors import DatabaseUnavailable, SchemaMismatch

# The newest migration, and the oldest tables that this code works with.
VERSION = "0017"
OLDEST = "0001"
# The newest migration of each release, for `windlass migrate --to`.
RELEASES = {"0.1.0": "0001"}

VERSION_TABLE = "windlass_version"
LOG_TABLE = migration.name
CURE = "run: windlass migrate, or app.migrate()"
LOOK_AGAIN_SECONDS = 10.0

version_row = Table(
    VERSION_TABLE,
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)


@dataclass(frozen=True)
class Tables:
    """How far the tables of a database are."""

    # The number that code must know; None without tables.
    known_from: str | None = None
    # The migrations that ended, and those that only began.
    ended: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()
    has_log: bool = False

    @property
    def version(self) -> str | None:
        """The newest migration that ended; None without tables."""
        # Release 0.1.0 made tables without a log.
        return max(self.ended) if self.known_from in self.ended else self.known_from

    def problem(self) -> str | None:
        """Why this code cannot work with the tables, and what to do; None if it can."""
        if self.version is None or self.known_from is None:
            if self.begun:
                return f"has tables that are being created, or were not finished; {CURE}"
            return f"has no Windlass tables yet; {CURE}"
        if self.known_from > VERSION:
            return (
                f"has tables of version {self.known_from}, newer than the {VERSION} that this "
                "Windlass knows; upgrade Windlass"
            )
        if self.version < OLDEST:
            return f"has tables of version {self.version}, this Windlass needs {OLDEST}; {CURE}"
        return None


def read_tables(connection: Connection, *, schema: str | None = None) -> Tables:
    """How far the tables are that `connection` sees, or those in `schema`."""
    inspector = inspect(connection)
    known_from, rows = None, []
    if inspector.has_table(VERSION_TABLE, schema):
        found = connection.execute(text(f"select version_num from {VERSION_TABLE}")).scalar()
        known_from = None if found is None else str(found)
    if has_log := inspector.has_table(LOG_TABLE, schema):
        columns = migration.c.version, migration.c.ended_at
        rows = [tuple(row) for row in connection.execute(select(*columns))]
    return Tables(
        known_from,
        ended=tuple(sorted(version for version, ended_at in rows if ended_at is not None)),
        begun=tuple(sorted(version for version, ended_at in rows if ended_at is None)),
        has_log=has_log,
    )


class SchemaVersion:
    """The version of the tables of one database, as far as this process knows it.

    Asking costs nothing once the tables have the version. If not, they are looked at again from
    time to time: they may be migrated while this process runs. Workers also notice if the tables
    go back to an older version.
    """

    def __init__(self, name: str, read: Callable[[], Tables]) -> None:
        self._name = name
        self._read = read
        self._looked_at = 0.0
        self.tables: Tables | None = None

    @property
    def version(self) -> str:
        """The version of the tables; empty without tables."""
        tables = self.tables or self.look()
        return tables.version or ""

    def has(self, version: str) -> bool:
        """Whether the tables have this migration."""
        if self.version >= version:
            return True
        if time.monotonic() - self._looked_at > LOOK_AGAIN_SECONDS:
            # A feature that waits for its tables must not fail because of this question.
            with suppress(DatabaseUnavailable, DBAPIError):
                self.look()
        return self.version >= version

    def need(self, version: str, what: str) -> None:
        """Refuse `what` until the tables have this migration."""
        if not self.has(version):
            raise SchemaMismatch(
                f"{what} needs tables of version {version}, but {self._name} has "
                f"{self.version or 'none'}; {CURE}"
            )

    def look(self) -> Tables:
        """Look at the tables again."""
        self._looked_at = time.monotonic()
        return self.learn(self._read())

    def learn(self, tables: Tables) -> Tables:
        """Know what was just read."""
        before, self.tables = self.tables, tables
        if before is not None and before.version != tables.version:
            facts = {"before": before.version or "none", "version": tables.version or "none"}
            telemetry.emit("schema.changed", database=self._name, **facts)
        return tables

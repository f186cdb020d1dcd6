"""One value for each database, for modules that need different SQL for each:

    STATEMENTS = PerDialect(sqlite=..., postgresql=..., mysql=...)

Then use `STATEMENTS.of(dialect)`. What a database can do is a property of `Dialect`. No other code
asks for the name of a database.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Select, Table

from windlass.database.dialect.base import Dialect
from windlass.database.server import server_of

T = TypeVar("T")
Rows = TypeVar("Rows", bound=Select[Any])


class PerDialect(Generic[T]):
    """A value for each database; MariaDB uses that of MySQL unless it has its own."""

    def __init__(self, *, sqlite: T, postgresql: T, mysql: T, mariadb: T | None = None) -> None:
        self._values = {
            "sqlite": sqlite,
            "postgresql": postgresql,
            "mysql": mysql,
            "mariadb": mysql if mariadb is None else mariadb,
        }

    def of(self, dialect: Dialect) -> T:
        """The value for `dialect`."""
        return self._values[dialect.server]

    def on(self, connection: Connection) -> T:
        """The value for the database of `connection`."""
        return self._values[server_of(connection.dialect)]


def force_index(query: Rows, table: Table, index: str) -> Rows:
    """Force MySQL and MariaDB to read `table` by `index`."""
    hint = f"force index ({index})"
    return query.with_hint(table, hint, "mysql").with_hint(table, hint, "mariadb")

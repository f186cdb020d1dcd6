"""One value for each database: how a part of Windlass speaks differently to each of them.

A module that needs other words for each database writes one class for each, and one choice:

    STATEMENTS = PerDialect(sqlite=..., postgresql=..., mysql=...)

Then `STATEMENTS.of(dialect)` is the one to use. What a database as such can do is a property of
`Dialect`. Nothing else asks for the name of a database.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Select, Table

from windlass.database.dialect.base import Dialect
from windlass.database.server import server_of

T = TypeVar("T")
Rows = TypeVar("Rows", bound=Select[Any])


class PerDialect(Generic[T]):
    """A value for each database; MariaDB takes that of MySQL unless it has its own."""

    def __init__(self, *, sqlite: T, postgresql: T, mysql: T, mariadb: T | None = None) -> None:
        self._values = {
            "sqlite": sqlite,
            "postgresql": postgresql,
            "mysql": mysql,
            "mariadb": mysql if mariadb is None else mariadb,
        }

    def of(self, dialect: Dialect) -> T:
        """The value for a database."""
        return self._values[dialect.server]

    def on(self, connection: Connection) -> T:
        """The value for the database that `connection` is on."""
        return self._values[server_of(connection.dialect)]


def force_index(query: Rows, table: Table, index: str) -> Rows:
    """Have MySQL and MariaDB read `table` by `index`, whatever their planner thinks."""
    hint = f"force index ({index})"
    return query.with_hint(table, hint, "mysql").with_hint(table, hint, "mariadb")

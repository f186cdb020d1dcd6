"""What differs between the databases: the contract, and per-database values for other modules."""

from __future__ import annotations

from typing import Generic, TypeVar

from sqlalchemy import URL, Connection

from windlass.database.column import server_of
from windlass.database.dialect.base import Dialect, Tier
from windlass.database.dialect.mysql import MySQL
from windlass.database.dialect.postgresql import PostgreSQL
from windlass.database.dialect.sqlite import SQLite

__all__ = ["Dialect", "PerDialect", "Tier", "dialect_of"]

T = TypeVar("T")


def dialect_of(url: URL) -> Dialect:
    """The dialect for a normalised URL."""
    backend = url.drivername.split("+")[0]
    dialect: Dialect = {"sqlite": SQLite, "postgresql": PostgreSQL}.get(backend, MySQL)()
    schema = url.query.get("schema")
    if isinstance(schema, str):
        dialect.use_schema(schema)
    return dialect


class PerDialect(Generic[T]):
    """One value for each database, for modules that need different SQL for each:

        STATEMENTS = PerDialect(sqlite=..., postgresql=..., mysql=...)

    Then use `STATEMENTS.of(dialect)`. MariaDB uses the value of MySQL unless it has its own. What a
    database can do is a property of `Dialect`. No other code asks for the name of a database.
    """

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

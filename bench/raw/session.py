"""One way to talk to the drivers of all databases."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import ParseResult, urlparse

from bench.raw.statement import MARIADB, MYSQL, POSTGRESQL, SQLITE

Answer = TypeVar("Answer")
CONFLICTS = ((1213,), (1205,), (1020,))


class Session:
    """One connection to any of the databases; transactions are explicit."""

    def __init__(self, address: str) -> None:
        place = urlparse(address)
        self.scheme = place.scheme
        match place.scheme:
            case "postgresql":
                self.statements, self._connection = POSTGRESQL, _open_postgresql(address)
            case "mysql":
                self._connection = _open_mysql(place)
                self.is_mariadb = "MariaDB" in self._connection.get_server_info()
                self.statements = MARIADB if self.is_mariadb else MYSQL
            case _:
                self.statements, self._connection = SQLITE, _open_sqlite(place)
        self._cursor = self._connection.cursor()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self.scheme == "sqlite":
            self._cursor.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()

    def persist(self, work: Callable[[], Answer]) -> Answer:
        """Do `work`, a transaction, again as long as InnoDB sees a deadlock in it."""
        while True:
            try:
                return work()
            except Exception as conflict:
                if conflict.args[:1] not in CONFLICTS:
                    raise

    def execute(self, statement: str, **values: object) -> None:
        self._cursor.execute(statement, values)

    def rows(self, statement: str, **values: object) -> Sequence[tuple[Any, ...]]:
        self._cursor.execute(statement, values)
        return self._cursor.fetchall()

    def alone(self, statement: str) -> None:
        """Execute what PostgreSQL allows in no transaction."""
        self._connection.commit()
        self._connection.autocommit = True
        self._cursor.execute(statement)
        self._connection.autocommit = False

    def analyse(self, table: str) -> None:
        """Do at once what PostgreSQL does by itself within minutes."""
        if self.scheme == "postgresql":
            self.alone(f"vacuum (analyze) {table}")

    def deadlocks(self) -> int:
        """How many deadlocks the server has met: in this database, or in all where it says no more.

        SQLite has none, as it has one writer at a time.
        """
        match self.scheme:
            case "postgresql":
                ask = "select deadlocks from pg_stat_database where datname = current_database()"
            case "mysql" if not self.is_mariadb:
                ask = """
                    select count from information_schema.innodb_metrics
                    where name = 'lock_deadlocks'
                """
            case "mysql":
                ask = """
                    select variable_value from information_schema.global_status
                    where variable_name = 'INNODB_DEADLOCKS'
                """
            case _:
                return 0
        with self.transaction():
            return int(self.rows(ask)[0][0])

    def close(self) -> None:
        self._connection.close()

    def ids(self, ids: Sequence[int]) -> object:
        """The ids as this database takes a list."""
        return json.dumps(ids) if self.scheme == "sqlite" else list(ids)


def _open_postgresql(address: str) -> Any:
    import psycopg

    return psycopg.connect(address)


def _open_mysql(place: ParseResult) -> Any:
    import pymysql

    return pymysql.connect(
        host=place.hostname,
        port=place.port,
        user=place.username,
        database=place.path[1:],
        init_command="set session transaction isolation level read committed",
    )


def _open_sqlite(place: ParseResult) -> sqlite3.Connection:
    connection = sqlite3.connect(place.path[1:], isolation_level=None, timeout=60)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    return connection

"""Databases for tests: SQLite files, or databases on a server that are emptied and reused."""

from __future__ import annotations

import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from windlass import telemetry
from windlass.database.database import Database, first_line
from windlass.database.dialect import PerDialect
from windlass.database.migrate import VERSION_TABLE, migrate
from windlass.database.schema import metadata
from windlass.database.url import show
from windlass.errors import BadDatabase

CASCADE = PerDialect(sqlite="", postgresql=" cascade", mysql="")


class Lender(ABC):
    """Lends migrated, empty databases, several at once."""

    @contextmanager
    @abstractmethod
    def lend(self) -> Iterator[str]:
        """The URL of a database for this block alone."""

    @abstractmethod
    def close(self) -> None:
        """Remove all databases that it made."""


class ScratchFiles(Lender):
    """SQLite: a file for each test, copied from a migrated template."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)

    @contextmanager
    def lend(self) -> Iterator[str]:
        path = self._folder / f"test_{next(self._numbers)}.db"
        shutil.copyfile(self._template(), path)
        try:
            # Tests need not survive a power failure, so they do not wait for disks.
            yield f"sqlite:///{path}?synchronous=OFF"
        finally:
            for part in self._folder.glob(f"{path.name}*"):
                part.unlink(missing_ok=True)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _template(self) -> Path:
        template = self._folder / "template.db"
        if not template.exists():
            database = Database(f"sqlite:///{template}")
            migrate(database)
            with database.engine.connect() as connection:
                # Only the main file is copied, so it must contain everything.
                connection.exec_driver_sql("pragma wal_checkpoint(truncate)")
            database.close()
        return template


class ScratchServer(Lender):
    """Databases on a server, made here, then emptied and reused. Others are never touched."""

    def __init__(self, url: str | URL) -> None:
        self._server = Database(url)
        self._url = self._server.url
        self._free: list[ScratchDatabase] = []
        self._made: list[ScratchDatabase] = []

    @contextmanager
    def lend(self) -> Iterator[str]:
        loan = self._free.pop() if self._free else self._make()
        try:
            yield loan.url
        finally:
            if loan.clean_up():
                self._free.append(loan)

    def close(self) -> None:
        for loan in self._made:
            loan.close()
            with suppress(SQLAlchemyError), self._committing() as connection:
                forced = " with (force)" if self._url.get_backend_name() == "postgresql" else ""
                connection.execute(text(f"drop database if exists {loan.name}{forced}"))
        self._server.close()

    def _committing(self) -> Connection:
        return self._server.engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def _make(self) -> ScratchDatabase:
        name = f"windlass_test_{os.getpid()}_{secrets.token_hex(4)}"
        try:
            with self._committing() as connection:
                connection.execute(text(f"create database {name}"))
        except SQLAlchemyError as problem:
            raise BadDatabase(
                f"cannot create a test database on {show(self._url)}: "
                f"{first_line(problem)}; give --windlass-database a user that may create "
                "databases, or let your own fixture windlass_databases return the URL of one"
            ) from problem
        loan = ScratchDatabase(name, self._url.set(database=name))
        self._made.append(loan)
        return loan


class ScratchDatabase:
    """One database on a server, and its rows when it was new."""

    def __init__(self, name: str, url: URL) -> None:
        self.name = name
        self.url = url.render_as_string(hide_password=False)
        self._database = Database(url)
        self._engine = self._database.engine
        migrate(self._database)
        self._seed = self._rows()

    def clean_up(self) -> bool:
        """Restore the state when it was new; False if that failed, so that no test gets it again.

        A test may leave a transaction open that has locked its rows.
        """
        try:
            self._clean()
        except SQLAlchemyError as problem:
            telemetry.log.warning(
                "the test database %s could not be emptied, so the next test gets another: %s",
                self.name,
                first_line(problem),
            )
            return False
        return True

    def _clean(self) -> None:
        """Drop other tables, delete other rows."""
        ours = {*metadata.tables, VERSION_TABLE, "windlass_sequence"}
        others = [each for each in inspect(self._engine).get_table_names() if each not in ours]
        cascade = CASCADE.of(self._database.dialect)
        quoted = self._engine.dialect.identifier_preparer.quote
        with self._engine.begin() as connection:
            for other in others:
                connection.execute(text(f"drop table {quoted(other)}{cascade}"))
            for table in reversed(metadata.sorted_tables):
                connection.execute(table.delete())
            for table in metadata.sorted_tables:
                if rows := self._seed[table.name]:
                    connection.execute(table.insert(), rows)

    def close(self) -> None:
        self._database.close()

    def _rows(self) -> dict[str, list[dict[str, Any]]]:
        with self._engine.connect() as connection:
            return {
                table.name: [dict(row) for row in connection.execute(table.select()).mappings()]
                for table in metadata.sorted_tables
            }

"""Creates and upgrades the tables, and refuses tables of another version."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from windlass.database.column import server_of
from windlass.database.database import TRIES, Database
from windlass.database.dialect import PerDialect
from windlass.database.dialect.base import Executor
from windlass.errors import SchemaMismatch

VERSION = "0004"
VERSION_TABLE = "windlass_version"
FOLDER = Path(__file__).parent / "migration"

# Statements to lock and unlock, so that one process migrates at a time. In SQLite and PostgreSQL
# the lock ends with the transaction.
LOCKS = PerDialect(
    sqlite=("", ""),
    postgresql=("select pg_advisory_xact_lock(2026111501)", ""),
    mysql=(
        "select get_lock('windlass_migrate', 60)",
        "select release_lock('windlass_migrate')",
    ),
)

# Alembic keeps its state in globals.
_ONE_AT_A_TIME = threading.Lock()


def migrate(database: Database) -> str:
    """Create or upgrade the tables; any number of processes may call it at any time."""
    found = current(database)
    if found == VERSION:
        return VERSION
    if found is not None and found > VERSION:
        check(database)
    with _ONE_AT_A_TIME, _quiet_alembic():
        from alembic.util import CommandError

        try:
            with database.unbounded() as unbounded:
                unbounded.write(_upgrade)
        except CommandError as problem:
            raise SchemaMismatch(
                f"{database.name} has tables of version {found}, which this Windlass does not "
                f"know: {problem}"
            ) from problem
    return VERSION


def script(database: Database) -> str:
    """The SQL that `migrate` would run on an empty database."""
    with _ONE_AT_A_TIME, _quiet_alembic():
        from alembic import command

        output = io.StringIO()
        config = _config(output)
        config.attributes["url"] = _url_of_server(database)
        command.upgrade(config, "head", sql=True)
    return output.getvalue()


@contextmanager
def _quiet_alembic() -> Iterator[None]:
    """Alembic tells the program that it was loaded, and each step: not what its log is for.

    A level that the program has given it stays.
    """
    logger = logging.getLogger("alembic")
    is_ours = logger.level == logging.NOTSET
    if is_ours:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        if is_ours:
            logger.setLevel(logging.NOTSET)


def _url_of_server(database: Database) -> URL:
    """MySQL and MariaDB have different collations: connect to find out which server it is."""
    if database.url.get_backend_name() != "mysql":
        return database.url
    with suppress(SQLAlchemyError), database.engine.connect() as connection:
        if server_of(connection.dialect) == "mariadb":
            return database.url.set(drivername="mariadb+pymysql")
    return database.url


def current(database: Database, *, tries: int = TRIES) -> str | None:
    """The version of the tables; None without tables."""

    def read(connection: Connection) -> str | None:
        if not inspect(connection).has_table(VERSION_TABLE):
            return None
        found = connection.execute(text(f"select version_num from {VERSION_TABLE}")).scalar()
        return None if found is None else str(found)

    return database.read(read, tries=tries)


def seen(executor: Executor) -> str | None:
    """The version of the tables of SQLite that the caller's connection sees."""
    there = text("select 1 from sqlite_master where name = :name")
    if not executor.execute(there, {"name": VERSION_TABLE}).fetchall():
        return None
    rows = executor.execute(text(f"select version_num from {VERSION_TABLE}"), {}).fetchall()
    return str(rows[0][0]) if rows else None


def check(database: Database, *, tries: int = TRIES) -> None:
    """Refuse tables of another version."""
    found = current(database, tries=tries)
    if found == VERSION:
        return
    if found is None:
        raise SchemaMismatch(
            f"{database.name} has no Windlass tables yet; run: windlass migrate, or app.migrate()"
        )
    if found < VERSION:
        raise SchemaMismatch(
            f"{database.name} has tables of version {found}, this Windlass needs {VERSION}; "
            "run: windlass migrate, or app.migrate()"
        )
    raise SchemaMismatch(
        f"{database.name} has tables of version {found}, newer than the {VERSION} that this "
        "Windlass knows; upgrade Windlass"
    )


def _upgrade(connection: Connection) -> None:
    from alembic import command

    begin, end = LOCKS.on(connection)
    config = _config(io.StringIO())
    config.attributes["connection"] = connection
    if begin:
        connection.execute(text(begin))
    try:
        command.upgrade(config, "head")
    finally:
        if end:
            connection.execute(text(end))


def _config(output: io.StringIO) -> Any:
    from alembic.config import Config

    config = Config(output_buffer=output)
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return config

"""Creates and upgrades the tables, and refuses tables of another version."""

from __future__ import annotations

import io
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, inspect, text
from sqlalchemy.exc import ProgrammingError, SQLAlchemyError

from windlass.database.column import server_of
from windlass.database.database import TRIES, Database
from windlass.database.dialect import PerDialect
from windlass.database.dialect.base import Executor
from windlass.database.dialect.qualify import AS_WRITTEN, quoted
from windlass.errors import BadDatabase, SchemaMismatch

VERSION = "0001"
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
    from alembic.util import CommandError

    try:
        with _ONE_AT_A_TIME, database.unbounded() as unbounded:
            unbounded.write(lambda connection: _upgrade(connection, unbounded))
    except CommandError as problem:
        raise SchemaMismatch(
            f"{database.name} has tables of version {found}, which this Windlass does not know: "
            f"{problem}"
        ) from problem
    return VERSION


def script(database: Database) -> str:
    """The SQL that `migrate` would run on an empty database."""
    from alembic import command

    output = io.StringIO()
    config = _config(output)
    config.attributes["url"] = _url_of_server(database)
    config.attributes["schema"] = schema = database.dialect.schema
    if schema is not None:
        home = quoted(schema)
        output.write(f"CREATE SCHEMA IF NOT EXISTS {home};\n\nSET search_path TO {home};\n\n")
    command.upgrade(config, "head", sql=True)
    return output.getvalue()


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
        # In this schema: the tables of another app may be visible too.
        if not inspect(connection).has_table(VERSION_TABLE, database.dialect.schema):
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


def _upgrade(connection: Connection, database: Database) -> None:
    from alembic import command

    begin, end = LOCKS.on(connection)
    config = _config(io.StringIO())
    config.attributes["connection"] = connection
    config.attributes["schema"] = schema = database.dialect.schema
    if begin:
        connection.execute(text(begin))
    if schema is not None:
        _enter(connection, schema, database.name)
    try:
        command.upgrade(config, "head")
    finally:
        if end:
            connection.execute(text(end))


def _enter(connection: Connection, schema: str, name: str) -> None:
    """Make the schema if it is missing; this transaction makes its tables there."""
    connection.execution_options(**{AS_WRITTEN: True})
    found = text("select 1 from pg_namespace where nspname = :schema")
    if connection.scalar(found, {"schema": schema}) is None:
        try:
            connection.execute(text(f"create schema {quoted(schema)}"))
        except ProgrammingError as problem:
            raise BadDatabase(
                f"{name}: this user may not create the schema {schema!r}; have an administrator "
                f"run: create schema {quoted(schema)} authorization <user>"
            ) from problem
    connection.execute(text(f"set local search_path to {quoted(schema)}"))


def _config(output: io.StringIO) -> Any:
    from alembic.config import Config

    config = Config(output_buffer=output)
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return config

"""Triggers that keep the items of a rolling kind equal to the keys of a table.

The user's own transaction carries the change: it commits with the row or not at all. What a
database does not tell its triggers is not followed, and a mirror now and then repairs it: in MySQL
and MariaDB TRUNCATE and the cascades of foreign keys, in SQLite the rows of other keys that an
INSERT OR REPLACE throws out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import URL, text
from sqlalchemy.exc import DBAPIError

from windlass.database.database import Database
from windlass.database.dialect.base import original
from windlass.errors import BadSource
from windlass.rolling.store.trigger.base import Follow, Triggers
from windlass.rolling.store.trigger.mysql import MySQLTriggers
from windlass.rolling.store.trigger.postgresql import PostgreSQLTriggers
from windlass.rolling.store.trigger.sqlite import SQLiteTriggers
from windlass.source.store.dialect import file_of
from windlass.source.store.table import Table
from windlass.value.task import check_priority

__all__ = ["follows_any", "install", "is_installed", "uninstall"]

T = TypeVar("T")

CURE = (
    "call add(now=True) and remove from your own code or a message queue, or mirror it now and then"
)
TRIGGERS: dict[str, Triggers] = {
    "mysql": MySQLTriggers(),
    "postgresql": PostgreSQLTriggers(),
    "sqlite": SQLiteTriggers(),
}
PORTS = {"mysql": 3306, "postgresql": 5432}
HERE = {"", "localhost", "127.0.0.1", "::1"}
NOT_TRUSTED = 1419


def install(database: Database, source: Table, *, kind: str, priority: int) -> None:
    """From now on every change of the keys of `source` changes the items of `kind`.

    Triggers that are there already are replaced. Keys that are there already are not looked at:
    mirror the table afterwards.
    """
    check_priority(kind, priority)
    if not _is_within_reach(database, source):
        raise BadSource(
            f"{source.name} cannot be followed: a trigger there cannot write into "
            f"{database.name}; {CURE}"
        )
    source.check()
    triggers = TRIGGERS[database.dialect.name]
    follow = _follow(database, source, kind, priority)
    _told(
        source,
        lambda: database.write(lambda connection: triggers.install(connection, follow)),
    )


def uninstall(database: Database, source: Table, *, kind: str) -> bool:
    """Remove the triggers of `kind` from `source`; False if there were none."""
    if not _is_within_reach(database, source):
        return False
    triggers = TRIGGERS[database.dialect.name]
    follow = _follow(database, source, kind)
    return _told(
        source,
        lambda: database.write(lambda connection: triggers.uninstall(connection, follow)),
    )


def is_installed(database: Database, source: Table, *, kind: str) -> bool:
    """Whether all triggers of `kind` are on `source`."""
    if not _is_within_reach(database, source):
        return False
    triggers = TRIGGERS[database.dialect.name]
    follow = _follow(database, source, kind)
    found = database.read(lambda connection: triggers.found(connection, follow))
    return found == triggers.names(follow)


def follows_any(database: Database) -> bool:
    """Whether there are triggers that write items into `database`, of whatever table and kind."""
    query = text(TRIGGERS[database.dialect.name].any_found)
    return database.read(lambda connection: connection.execute(query).first()) is not None


def _follow(database: Database, source: Table, kind: str, priority: int = 0) -> Follow:
    triggers = TRIGGERS[database.dialect.name]
    return Follow(
        schema=source.schema or triggers.place_of(source),
        table=source.table,
        key=source.key,
        home=database.read(triggers.home),
        kind=kind,
        priority=priority,
    )


def _is_within_reach(database: Database, source: Table) -> bool:
    """Whether a statement in the database of `source` can write into `database`."""
    ours, theirs = _backend(database.url), _backend(source.url)
    if ours != theirs:
        return False
    if ours == "sqlite":
        file = file_of(database.url)
        return file is not None and file == file_of(source.url)
    if ours == "postgresql" and _database(database.url) != _database(source.url):
        return False
    return _server(database.url) == _server(source.url)


def _backend(url: URL) -> str:
    return url.get_backend_name().replace("mariadb", "mysql")


def _database(url: URL) -> str | None:
    return url.database or url.username


def _server(url: URL) -> tuple[str, int]:
    socket = url.query.get("unix_socket")
    host = str(socket or url.host or url.query.get("host") or "")
    port = url.port or int(str(url.query.get("port") or PORTS[_backend(url)]))
    return ("" if host in HERE else host), port


def _told(source: Table, work: Callable[[], T]) -> T:
    """What `work` answers; what the database refuses is told with the cure."""
    try:
        return work()
    except DBAPIError as problem:
        cause = original(problem)
        if cause.args and cause.args[0] == NOT_TRUSTED:
            raise BadSource(
                f"{source.name} cannot be followed: the server keeps a binary log and lets only "
                "SUPER make triggers; have its administrator run: "
                f"set global log_bin_trust_function_creators = 1; or else {CURE}"
            ) from problem
        line = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
        raise BadSource(f"{source.name} cannot be followed: {line[:300]}; {CURE}") from problem

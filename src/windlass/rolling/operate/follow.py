"""Following a table: triggers add and remove items as rows come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from windlass.core.shard.fleet import Fleet
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.database.dialect.base import original
from windlass.errors import BadDatabase, BadSource
from windlass.rolling.store.trigger import TRIGGERS
from windlass.rolling.store.trigger.reach import is_within_reach
from windlass.source.contract import MirrorSource
from windlass.source.store.table import Table
from windlass.value.task import check_priority

T = TypeVar("T")

CURE = (
    "call add(now=True) and remove from your own code or a message queue, or mirror it now and then"
)
# The error of MySQL and MariaDB when a trigger needs the privilege SUPER.
NOT_TRUSTED = 1419


def table_of(database: Database, url: str | None, name: str, *, key: str) -> Table:
    """A table in the database at `url`; without a URL, in ours."""
    return Table(database.url if url is None else url, name, key=key)


def install(database: Database, source: MirrorSource, *, kind: str, priority: int) -> None:
    """From now on every change of the keys of `source` changes the items of `kind`.

    Triggers that are there already are replaced. Keys that are there already are not read: mirror
    the table afterwards.
    """
    table = _table(source)
    check_priority(kind, priority)
    if not is_within_reach(database.url, table.url):
        raise BadSource(
            f"{table.name} cannot be followed: a trigger there cannot write into "
            f"{database.name}; {CURE}"
        )
    table.check()

    def work(connection: Connection) -> None:
        triggers = TRIGGERS.on(connection)
        triggers.install(connection, triggers.follow(connection, table, kind, priority))

    _change(database, table, work)


def uninstall(database: Database, source: MirrorSource, *, kind: str) -> bool:
    """Remove the triggers of `kind` from `source`; False if there were none."""
    table = _table(source)
    if not is_within_reach(database.url, table.url):
        return False

    def work(connection: Connection) -> bool:
        triggers = TRIGGERS.on(connection)
        return triggers.uninstall(connection, triggers.follow(connection, table, kind, 0))

    return _change(database, table, work)


def is_installed(database: Database, source: MirrorSource, *, kind: str) -> bool:
    """Whether all triggers of `kind` are on `source`."""
    if not isinstance(source, Table) or not is_within_reach(database.url, source.url):
        return False

    def work(connection: Connection) -> bool:
        triggers = TRIGGERS.on(connection)
        return not triggers.missing(connection, triggers.follow(connection, source, kind, 0))

    return database.read(work)


def check_shard(database: Database) -> None:
    """BadDatabase if triggers write into `database`: it cannot become one of several shards."""
    if database.read(lambda connection: TRIGGERS.on(connection).are_any(connection)):
        raise BadDatabase(
            f"{database.name} follows tables by triggers, which cannot write into other shards; "
            "first call unfollow for each rolling kind with this database alone, and mirror from "
            "then on"
        )


def _table(source: MirrorSource) -> Table:
    if not isinstance(source, Table):
        raise BadSource(
            f"{source!r} cannot be followed: only a windlass.Table can have triggers; "
            "call add and remove from your own code, or mirror now and then"
        )
    return source


def _change(database: Database, table: Table, work: Callable[[Connection], T]) -> T:
    try:
        return database.write(work)
    except Exception as problem:
        cause = original(problem)
        if cause is problem:
            raise
        if cause.args and cause.args[0] == NOT_TRUSTED:
            raise BadSource(
                f"{table.name} cannot be followed: the server keeps a binary log and lets only "
                "SUPER create triggers; have its administrator run: "
                f"set global log_bin_trust_function_creators = 1; or else {CURE}"
            ) from problem
        line = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
        raise BadSource(f"{table.name} cannot be followed: {line[:300]}; {CURE}") from problem


def only_database(fleet: Fleet, source: MirrorSource) -> Database:
    """The database whose triggers can keep all items; an app with several shards has none."""
    if fleet.single is None:
        name = source.name if isinstance(source, MirrorSource) else repr(source)
        raise BadSource(
            f"{name} cannot be followed: its triggers could only write into their own database, "
            f"and the items of this app are in {len(fleet.shards)} shards; mirror it now and then, "
            "or call add(now=True) and remove from your own code"
        )
    return fleet.single.database

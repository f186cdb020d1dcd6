"""Health: whether each database answers, how fast, and whether its tables fit."""

from __future__ import annotations

import time
from dataclasses import dataclass

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import OUTAGES, Shard
from windlass.database import migrate
from windlass.database.database import Database, first_line
from windlass.errors import WindlassError
from windlass.view.field import Moment


@dataclass(frozen=True)
class DatabaseHealth:
    """A database; `server` is its version, `schema_found` that of its tables.

    `now` is its clock; None if it does not answer.
    """

    name: str
    dialect: str
    server: str | None = None
    schema_found: str | None = None
    schema_needed: str = migrate.VERSION
    milliseconds: float | None = None
    now: Moment | None = None
    problem: str | None = None


def look(fleet: Fleet) -> list[DatabaseHealth]:
    """The health of each database; each is asked once."""
    return [_look(shard) for shard in fleet.shards]


def _look(shard: Shard) -> DatabaseHealth:
    database = shard.database
    try:
        began = time.monotonic()
        now = database.measure(tries=1)
        milliseconds = (time.monotonic() - began) * 1_000
        found = migrate.current(database, tries=1)
    except (*OUTAGES, WindlassError) as problem:
        return DatabaseHealth(database.name, database.dialect.name, problem=first_line(problem))
    return DatabaseHealth(
        name=database.name,
        dialect=database.dialect.name,
        server=_server(database),
        schema_found=found,
        milliseconds=milliseconds,
        now=now,
        problem=_mismatch(database, found),
    )


def _mismatch(database: Database, found: str | None) -> str | None:
    if found == migrate.VERSION or (found is None and database.dialect.migrates_itself):
        return None
    return f"its tables have version {found or 'none'}; run: windlass migrate"


def _server(database: Database) -> str | None:
    with database.engine.connect() as connection:
        version = connection.dialect.server_version_info
    return None if version is None else ".".join(map(str, version))

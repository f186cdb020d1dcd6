"""Health: whether each database answers, how fast, and whether its tables fit."""

from __future__ import annotations

import time
from dataclasses import dataclass

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import OUTAGES, Shard
from windlass.core.task.kind import Registry
from windlass.database import migrate
from windlass.database.database import Database, first_line
from windlass.errors import WindlassError
from windlass.watch.check.operate import Finding, of_kinds


@dataclass(frozen=True)
class DatabaseHealth:
    """How a database is. `now` is its clock, in microseconds; None if it does not answer."""

    name: str
    dialect: str
    server: str | None = None
    schema_found: str | None = None
    schema_needed: str = migrate.VERSION
    milliseconds: float | None = None
    now: int | None = None
    problem: str | None = None


def look(fleet: Fleet) -> list[DatabaseHealth]:
    """How each database is; none is waited for."""
    return [_look(shard) for shard in fleet.shards]


def findings(registry: Registry) -> list[Finding]:
    """What is wrong with the kinds, or may be, as far as no source has to be asked."""
    return of_kinds(registry)


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

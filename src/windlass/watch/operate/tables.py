"""The tables of all databases: their versions, what an upgrade would do, and the way back."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.core.shard.fleet import Fleet
from windlass.database import migrate
from windlass.database.migration.plan import PlannedStep


@dataclass(frozen=True)
class Plan:
    """What `migrate` would do to one database now."""

    database: str
    version: str | None
    pending: list[str]
    steps: list[PlannedStep]


@dataclass(frozen=True)
class WayBack:
    """What a database would lose on the way back to an older version."""

    database: str
    version: str | None
    steps: list[str]


def versions(fleet: Fleet) -> list[tuple[str, str | None]]:
    """The name of each database and the version of its tables; None if it has no tables."""
    return [(shard.database.name, migrate.current(shard.database)) for shard in fleet.shards]


def script(fleet: Fleet) -> str:
    """The SQL that makes the tables in the first database."""
    return migrate.script(fleet.shards[0].database)


def plans(fleet: Fleet) -> list[Plan]:
    """What `migrate` would do to each database now."""
    found = []
    for shard in fleet.shards:
        version = migrate.current(shard.database)
        steps = migrate.plan(shard.database)
        found.append(Plan(shard.database.name, version, migrate.pending(version), steps))
    return found


def losses(fleet: Fleet, name: str) -> list[WayBack]:
    """What each database would lose on the way back to a version, or to a release."""
    to = migrate.version_of(name)
    return [
        WayBack(
            shard.database.name, migrate.current(shard.database), migrate.losses(shard.database, to)
        )
        for shard in fleet.shards
    ]


def go_back(fleet: Fleet, name: str) -> str:
    """Take back migrations in each database, to a version or to a release."""
    to = migrate.version_of(name)
    for shard in fleet.shards:
        migrate.downgrade(shard.database, to=to)
    return to

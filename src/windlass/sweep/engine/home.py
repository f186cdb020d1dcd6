"""The one shard that a sweep lives in."""

from __future__ import annotations

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind
from windlass.errors import DatabaseUnavailable
from windlass.sweep.store import sweep

# The key by which a new sweep finds its shard.
SWEEP_KEY = "windlass:sweep"


def sweep_home(fleet: Fleet, kind: Kind) -> Shard:
    """The shard that has a sweep, or else the one where it begins.

    A sweep stays where it is when shards come and go: its ranges are all in one place.
    """
    if fleet.single is not None:
        return fleet.single
    found = fleet.fan_out(
        lambda shard: shard.database.read(lambda connection: sweep.get(connection, kind.name))
    )
    there = [shard for shard, row in found.found if row is not None]
    if there:
        return min(there, key=lambda shard: shard.index)
    if found.missing:
        raise DatabaseUnavailable(
            f"sweep {kind.name!r} is in none of the shards that answer; "
            f"{', '.join(found.missing)} does not",
            missing=found.missing,
        )
    return fleet.home(kind.name, SWEEP_KEY)

"""What the faces rolling and control ask of all shards."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection

from windlass.clock import Clock
from windlass.control import operate as control
from windlass.control.model.control import Place, RunStatus, RunView
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind
from windlass.rolling.model import Freshness, Item
from windlass.rolling.operate import freshness
from windlass.rolling.operate import item as rolling
from windlass.rolling.store import item as rolling_store
from windlass.value.listing import Listing


def fresh(fleet: Fleet, clock: Clock, kind: Kind) -> Freshness:
    """How fresh the items of a rolling kind are now."""
    found = fleet.ask(lambda shard: freshness.facts_of(shard.database, shard.clock, kind))
    return freshness.judge(found.values, kind, now=clock.now(), missing=found.missing)


# Items


def item(fleet: Fleet, kind: Kind, code: str) -> Item | None:
    """One item; None if there is none of that code."""
    for shard in fleet.route(kind.name, code).shards:
        found = rolling.item(shard.database, kind, code)
        if found is not None:
            return found
    return None


def items(fleet: Fleet, kind: Kind, *, prefix: str, after: str, limit: int) -> Listing[Item]:
    """Items whose codes begin with `prefix`, in the order of their codes, after one of them."""
    found = fleet.fan_out(
        lambda shard: rolling.items(shard.database, kind, prefix=prefix, after=after, limit=limit)
    )
    once = {each.code: each for part in found.values for each in part}
    return Listing([once[code] for code in sorted(once)][:limit], found.missing)


def shard_of_item(fleet: Fleet, kind: Kind, code: str) -> Shard | None:
    """The shard that has an item."""

    def look(connection: Connection) -> int | None:
        return rolling_store.find(connection, kind.name, code)

    for shard in fleet.route(kind.name, code).shards:
        if shard.database.read(look) is not None:
            return shard
    return None


# Named runs


def controls(
    fleet: Fleet,
    *,
    name: str | None = None,
    statuses: Collection[RunStatus] = tuple(RunStatus),
    after: Place | None = None,
    limit: int | None = None,
) -> Listing[RunView]:
    """All runs, or those of a name, by name and partition; a page of them after one of them."""
    found = fleet.fan_out(
        lambda shard: control.listing(
            shard.database, shard.clock, name=name, statuses=statuses, after=after, limit=limit
        )
    )
    # One that is on its way is in two shards for a moment.
    once = {(run.name, run.partition): run for part in found.values for run in part}
    return Listing([once[place] for place in sorted(once)][:limit], found.missing)


def control_at(fleet: Fleet, place: Place) -> RunView | None:
    """One run; None if it was never started."""
    found = fleet.ask(lambda shard: control.get(shard.database, shard.clock, place))
    return next((run for run in found.values if run is not None), None)


def control_history(fleet: Fleet, place: Place, *, limit: int) -> list[RunView]:
    """The tries of a run that ended, newest first."""
    found = fleet.fan_out(
        lambda shard: control.history(shard.database, shard.clock, place, limit=limit)
    )
    tries = [run for part in found.values for run in part]
    if fleet.single is None:
        tries.sort(key=lambda run: (run.end_time is not None, run.end_time), reverse=True)
    return tries[:limit]

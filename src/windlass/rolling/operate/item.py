"""Finding items, in whichever shard they are."""

from __future__ import annotations

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind
from windlass.rolling.model import Item
from windlass.rolling.store import item as store
from windlass.view.listing import Listing


def item(fleet: Fleet, kind: Kind, code: str) -> Item | None:
    """One item; None if there is none with that code."""
    for shard in fleet.route(kind.name, code).shards:
        found = shard.database.read(lambda connection: store.item(connection, kind.name, code))
        if found is not None:
            return found
    return None


def items(fleet: Fleet, kind: Kind, *, prefix: str, after: str, limit: int) -> Listing[Item]:
    """Items whose codes begin with `prefix`, in the order of their codes, after `after`."""

    def ask(shard: Shard) -> list[Item]:
        return shard.database.read(
            lambda connection: store.items(
                connection, kind.name, prefix=prefix, after=after, limit=limit
            )
        )

    found = fleet.fan_out(ask)
    # An item that is being moved is in two shards for a moment.
    once = {each.code: each for part in found.values for each in part}
    page = [once[code] for code in sorted(once)][:limit]
    return Listing(page, found.missing, cursor=page[-1].code if len(page) == limit else None)


def shard_of(fleet: Fleet, kind: Kind, code: str) -> Shard | None:
    """The shard that has an item."""
    if fleet.single is not None:
        return fleet.single
    for shard in fleet.route(kind.name, code).shards:
        found = shard.database.read(lambda connection: store.find(connection, kind.name, code))
        if found is not None:
            return shard
    return None

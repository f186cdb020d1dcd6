"""The home of a limit that holds for the whole fleet: the one shard that has its row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from windlass.core.limit.permit.guest import Place
from windlass.core.limit.permit.pools import names_of
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind
from windlass.errors import DatabaseUnavailable, WindlassError

# The key by which the name of a limit is routed, as the keys of rows are.
LIMIT_KEY = "windlass:limit"


def limit_home(fleet: Fleet, name: str) -> Shard:
    """The shard that has the permits, the rate and the breaker of `name`."""
    return fleet.home(name, LIMIT_KEY)


def place_of_shard(shard: Shard) -> Place:
    return Place(shard.database, shard.clock, shard.numbers, shard.faces)


def homes_of(fleet: Fleet, shard: Shard, kinds: Iterable[Kind]) -> Mapping[str, Place]:
    """Where the limits of `kinds` are kept, for those that are not kept in `shard`."""
    if fleet.single is not None:
        return {}
    homes: dict[str, Place] = {}
    places: dict[Shard, Place] = {}
    for name in names_of(kinds):
        try:
            home = limit_home(fleet, name)
        except DatabaseUnavailable as problem:
            # Not an outage of this shard: it is served as soon as the home is known.
            raise WindlassError(f"the limits of {name!r} are in another shard: {problem}") from None
        if home is not shard:
            homes[name] = places.setdefault(home, place_of_shard(home))
    return homes

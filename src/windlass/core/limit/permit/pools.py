"""The limits of the fleet that the kinds of a worker have, ready for use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from windlass.core.limit.permit.account import Account, Permits
from windlass.core.limit.permit.guest import Guest, Place
from windlass.core.run.permit import Holder, Pool
from windlass.core.run.ready import KindLoad
from windlass.core.run.trip import Trip
from windlass.core.task.kind import Kind
from windlass.database.database import Database


class FleetLimits(NamedTuple):
    """The pools and trips of a worker by name, and the loop that tends the permits."""

    pools: dict[str, Pool]
    trips: dict[str, Trip]
    permits: Permits


def names_of(kinds: Iterable[Kind]) -> set[str]:
    """The names of limits that hold for the whole fleet."""
    found: set[str] = set()
    for kind in kinds:
        found |= {each.name for each in kind.downstreams}
        if kind.total_concurrency is not None:
            found.add(kind.name)
    return found


def make_limits(
    loads: Iterable[KindLoad],
    database: Database,
    holder: Holder,
    *,
    homes: Mapping[str, Place],
    dead_after: int,
    gained: Callable[[], None],
    freed: Callable[[], None],
) -> FleetLimits:
    """Give the loads the pools and trips of their kinds.

    A name in `homes` has its permits there, under the id of a guest.
    """
    loads = list(loads)
    guests: dict[int, Guest] = {}
    pools: dict[str, Pool] = {}
    accounts: list[Account] = []
    for name in sorted(names_of(load.kind for load in loads)):
        place, mine = homes.get(name), holder
        if place is not None:
            mine = guests.setdefault(id(place.database), Guest(place, dead_after=dead_after))
        pools[name] = Pool(name, mine)
        accounts.append(Account(pools[name], database if place is None else place.database))
    trips = {name: Trip(name, terms) for load in loads for name, terms in load.breakers}
    for load in loads:
        kind = load.kind
        names = [each.name for each in kind.downstreams]
        if kind.total_concurrency is not None:
            pools[kind.name].limit = kind.total_concurrency
            names.append(kind.name)
        for each in kind.downstreams:
            pools[each.name].limit = each.concurrency
        load.pools = tuple(pools[name] for name in names)
        for pool in load.pools:
            pool.loads.append(load)
        load.trips = tuple(trips[name] for name, _ in load.breakers)
    permits = Permits(accounts, guests=guests.values(), gained=gained, freed=freed)
    return FleetLimits(pools, trips, permits)

"""Promises as operators see them: over all shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from windlass.clock import Clock
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind, Registry
from windlass.database.connection import Connection
from windlass.errors import Unknown
from windlass.view.listing import Listing
from windlass.watch.promise.engine import Facts, PromiseReader, judged, promising
from windlass.watch.promise.model.promise import WORST, Promise

# What one shard says of a kind: its facts, and what holds it back.
Told = dict[str, tuple[Facts, str | None]]


def listing(fleet: Fleet, clock: Clock, registry: Registry) -> Listing[Promise]:
    """All promises, the worst first."""
    kinds = promising(registry.kinds)
    answers = fleet.ask(lambda shard: read(shard, registry))
    now = clock.now()
    found = [
        replace(each, missing=answers.missing)
        for kind in kinds
        if (each := together(kind, answers.values, now=now)) is not None
    ]
    found.sort(key=lambda each: (WORST.index(each.state), each.kind))
    return Listing(found, answers.missing)


def show(fleet: Fleet, clock: Clock, registry: Registry, name: str) -> Promise:
    """The promise of one kind."""
    kind = registry.get(name)
    found = [each for each in listing(fleet, clock, registry) if each.kind == kind.name]
    if not found:
        raise Unknown(
            f"kind {name!r} promises nothing; declare within= (or every=, for a rolling kind)"
        )
    return found[0]


def together(kind: Kind, found: Sequence[Told], *, now: int) -> Promise | None:
    """The promise of a kind over all shards; None if no shard that answers knows it."""
    there = [each[kind.name] for each in found if kind.name in each]
    if not there:
        return None
    held = next((why for _, why in there if why is not None), None)
    return replace(judged(kind, [facts for facts, _ in there], now=now), held_back=held)


def read(shard: Shard, registry: Registry) -> Told:
    """What one shard says of all kinds that promise something."""
    dialect, now = shard.database.dialect, shard.clock.fresh()

    def work(connection: Connection) -> Told:
        reader = PromiseReader(connection, dialect, registry.kinds, now)
        found = ((kind, reader.facts(kind)) for kind in promising(registry.kinds))
        return {
            kind.name: (facts, reader.held_back(kind)) for kind, facts in found if facts is not None
        }

    return shard.database.read(work)

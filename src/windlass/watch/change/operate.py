"""Changes: a mark for each topic. A mark changes when something of its topic changes.

Marks are cheap: each is read from the end of an index, or from a table that is always small.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

from windlass.clock import Clock
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.database.connection import Connection
from windlass.watch.change import store

Read = Callable[[Connection, int], Sequence[Any]]

TOPICS: dict[str, Read] = {
    "tasks": store.tasks,
    "failures": store.failures,
    "alerts": store.alerts,
    "switches": store.switches,
    "workers": store.workers,
    "sweeps": store.sweeps,
    "flows": store.flows,
    "control": store.control,
    "audit": store.audit,
    "ledger": store.ledger,
}


def known_marks(fleet: Fleet) -> dict[str, str] | None:
    """The marks of all topics now; None if no database can be asked."""
    try:
        return marks(fleet)
    except store.UNREADABLE:
        return None


def marks(fleet: Fleet) -> dict[str, str]:
    """The marks of all topics now."""
    found = fleet.fan_out(_marks).values
    return {topic: "-".join(each[topic] for each in found) for topic in TOPICS}


def _marks(shard: Shard) -> dict[str, str]:
    clock: Clock = shard.clock
    now = clock.now()
    return shard.database.read(
        lambda connection: {topic: _mark(read(connection, now)) for topic, read in TOPICS.items()}
    )


def _mark(found: Sequence[Any]) -> str:
    return f"{zlib.crc32(repr(found).encode()):08x}"

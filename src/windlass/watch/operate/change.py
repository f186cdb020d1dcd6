"""Changes: a mark for each topic. A mark changes when something of its topic changes.

Marks are cheap: each is read from the end of an index, or from a table that is always small. While
there are listeners, the database is asked once a second, for any number of them.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.database.connection import Connection
from windlass.value.twin import twin
from windlass.watch.store import change as store

READ_SECONDS = 1.0
MOST_LISTENERS = 1_000

Changes = asyncio.Queue[set[str]]
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


@dataclass(eq=False)
class ChangeWatcher:
    """Reads the marks of all topics, and tells listeners which have changed."""

    fleet: Fleet
    seconds: float = field(default=READ_SECONDS, kw_only=True)
    _listeners: set[Changes] = field(init=False, default_factory=set)
    _marks: dict[str, str] = field(init=False, default_factory=dict)
    _reading: asyncio.Task[None] | None = field(init=False, default=None)

    @property
    def is_full(self) -> bool:
        """Whether there are too many listeners for another one."""
        return len(self._listeners) >= MOST_LISTENERS

    async def begin(self) -> dict[str, str]:
        """The marks from which a new listener is told what changes.

        Take them before the listener begins to read: a change while it reads must not be missed.
        """
        if self._is_reading:
            return self._marks
        return await twin(known_marks, self.fleet) or {}

    @asynccontextmanager
    async def listening(self, since: dict[str, str]) -> AsyncIterator[Changes]:
        """What changes while the block lasts, and has changed `since`."""
        # A slow listener gets everything at once, later: the queue has one entry, which grows.
        changes: Changes = asyncio.Queue(maxsize=1)
        self._listeners.add(changes)
        if self._is_reading:
            self._tell(_changed(since, self._marks), [changes])
        else:
            self._marks = since
            self._reading = asyncio.create_task(self._read())
        try:
            yield changes
        finally:
            self._listeners.discard(changes)

    @property
    def _is_reading(self) -> bool:
        return self._reading is not None and not self._reading.done()

    async def _read(self) -> None:
        while self._listeners:
            await asyncio.sleep(self.seconds)
            now = await twin(known_marks, self.fleet)
            if now is not None:
                self._tell(_changed(self._marks, now), self._listeners)
                self._marks = now

    @staticmethod
    def _tell(topics: set[str], listeners: Iterable[Changes]) -> None:
        if not topics:
            return
        for changes in listeners:
            missed = changes.get_nowait() if changes.full() else set()
            changes.put_nowait(topics | missed)


def _marks(shard: Shard) -> dict[str, str]:
    now = shard.clock.now()
    return shard.database.read(
        lambda connection: {topic: _mark(read(connection, now)) for topic, read in TOPICS.items()}
    )


def _mark(found: Sequence[Any]) -> str:
    return f"{zlib.crc32(repr(found).encode()):08x}"


def _changed(before: dict[str, str], now: dict[str, str]) -> set[str]:
    return {topic for topic in now if now[topic] != before.get(topic)}

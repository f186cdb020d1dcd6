"""Watches the database while there are listeners, and tells them what changed.

The database is asked once a second, for any number of listeners.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from windlass.core.shard.fleet import Fleet
from windlass.value.twin import twin
from windlass.watch.change import operate

READ_SECONDS = 1.0
MOST_LISTENERS = 1_000

Changes = asyncio.Queue[set[str]]


class ChangeWatcher:
    """Reads the marks of all topics, and tells listeners which have changed."""

    def __init__(self, fleet: Fleet, *, seconds: float = READ_SECONDS) -> None:
        self._fleet = fleet
        self._seconds = seconds
        self._listeners: set[Changes] = set()
        self._marks: dict[str, str] = {}
        self._reading: asyncio.Task[None] | None = None

    def marks(self) -> dict[str, str]:
        """The marks of now."""
        return operate.marks(self._fleet)

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
        return await twin(operate.known_marks, self._fleet) or {}

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
            await asyncio.sleep(self._seconds)
            now = await twin(operate.known_marks, self._fleet)
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


def _changed(before: dict[str, str], now: dict[str, str]) -> set[str]:
    return {topic for topic in now if now[topic] != before.get(topic)}

"""Watches the database while somebody listens, and tells all listeners what changed.

However many listen, the database is asked once a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from sqlalchemy.exc import SQLAlchemyError

from windlass.app import App
from windlass.declare.twin import twin
from windlass.errors import WindlassError
from windlass.operate import change

LOOK_SECONDS = 1.0
MOST_LISTENERS = 1_000

Heard = asyncio.Queue[set[str]]


class Watch:
    """Looks at the marks of all topics, and tells which have changed."""

    def __init__(self, app: App, *, seconds: float = LOOK_SECONDS) -> None:
        self._app = app
        self._seconds = seconds
        self._listeners: set[Heard] = set()
        self._looking: asyncio.Task[None] | None = None

    def look(self) -> dict[str, str]:
        """The marks of now."""
        return change.marks(self._app.fleet)

    @property
    def is_full(self) -> bool:
        """Whether nobody else can listen."""
        return len(self._listeners) >= MOST_LISTENERS

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Heard]:
        """What changes while the block lasts."""
        # One who is slow hears of everything at once, later: only the last telling waits.
        heard: Heard = asyncio.Queue(maxsize=1)
        self._listeners.add(heard)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_on())
        try:
            yield heard
        finally:
            self._listeners.discard(heard)

    async def _look_on(self) -> None:
        before: dict[str, str] | None = None
        while self._listeners:
            with suppress(WindlassError, SQLAlchemyError):
                now = await twin(self.look)
                if before is not None:
                    self._tell({topic for topic in now if now[topic] != before.get(topic)})
                before = now
            await asyncio.sleep(self._seconds)

    def _tell(self, topics: set[str]) -> None:
        if not topics:
            return
        for heard in self._listeners:
            missed = heard.get_nowait() if heard.full() else set()
            heard.put_nowait(topics | missed)

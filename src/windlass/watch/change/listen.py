"""Watches the database while somebody listens, and tells all listeners what changed.

However many listen, the database is asked once a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

from sqlalchemy.exc import SQLAlchemyError

from windlass.app import App
from windlass.errors import WindlassError
from windlass.value.twin import twin
from windlass.watch.change import operate as change

LOOK_SECONDS = 1.0
MOST_LISTENERS = 1_000

Heard = asyncio.Queue[set[str]]


class Watch:
    """Looks at the marks of all topics, and tells which have changed."""

    def __init__(self, app: App, *, seconds: float = LOOK_SECONDS) -> None:
        self._app = app
        self._seconds = seconds
        self._listeners: set[Heard] = set()
        self._marks: dict[str, str] = {}
        self._looking: asyncio.Task[None] | None = None

    def look(self) -> dict[str, str]:
        """The marks of now."""
        return change.marks(self._app.fleet)

    @property
    def is_full(self) -> bool:
        """Whether nobody else can listen."""
        return len(self._listeners) >= MOST_LISTENERS

    async def begin(self) -> dict[str, str]:
        """The marks from which on a listener is told what changes.

        Take them before the listener knows that it listens: it then asks for everything, and
        what changes while that is under way must not be taken for what it has seen.
        """
        if not self._is_looking:
            with suppress(WindlassError, SQLAlchemyError):
                return await twin(self.look)
            return {}
        return self._marks

    @asynccontextmanager
    async def listening(self, since: dict[str, str]) -> AsyncIterator[Heard]:
        """What changes while the block lasts, and has changed `since`."""
        # One who is slow hears of everything at once, later: only the last telling waits.
        heard: Heard = asyncio.Queue(maxsize=1)
        self._listeners.add(heard)
        if self._is_looking:
            self._tell(_changed(since, self._marks), [heard])
        else:
            self._marks = since
            self._looking = asyncio.create_task(self._look_on())
        try:
            yield heard
        finally:
            self._listeners.discard(heard)

    @property
    def _is_looking(self) -> bool:
        return self._looking is not None and not self._looking.done()

    async def _look_on(self) -> None:
        while self._listeners:
            await asyncio.sleep(self._seconds)
            with suppress(WindlassError, SQLAlchemyError):
                now = await twin(self.look)
                self._tell(_changed(self._marks, now), self._listeners)
                self._marks = now

    @staticmethod
    def _tell(topics: set[str], listeners: Iterable[Heard]) -> None:
        if not topics:
            return
        for heard in listeners:
            missed = heard.get_nowait() if heard.full() else set()
            heard.put_nowait(topics | missed)


def _changed(before: dict[str, str], now: dict[str, str]) -> set[str]:
    return {topic for topic in now if now[topic] != before.get(topic)}

"""A worker for one row only, and the thread on which a caller runs it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future

from windlass.clock import Clock
from windlass.core.fetch.claim import Taken
from windlass.core.fetch.store import claim
from windlass.core.run.load import Room
from windlass.database.database import Database
from windlass.database.dialect.base import Stamp
from windlass.database.number import Numbers


def in_thread(run: Callable[[], Coroutine[object, object, None]]) -> Future[None]:
    """Run a coroutine on an event loop and a thread of its own; the caller may have a loop."""
    future: Future[None] = Future()

    def work() -> None:
        try:
            future.set_result(asyncio.run(run()))
        except BaseException as problem:
            future.set_exception(problem)

    threading.Thread(target=work, name="windlass-visit", daemon=True).start()
    return future


class OneClaim:
    """Takes one row, once, by a written claim."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        numbers: Numbers,
        number: int,
        *,
        worker: Callable[[], int],
        lease: int,
        max_lost: int,
        is_rested: bool,
    ) -> None:
        self._database = database
        self._clock = clock
        self._numbers = numbers
        self._number = number
        self._worker = worker
        self._lease = lease
        self._max_lost = max_lost
        self._is_rested = is_rested
        self._has_tried = False

    def tend(self) -> bool:
        return True

    def take(self, room: Room) -> Taken:
        if self._has_tried:
            return Taken([], [])
        self._has_tried = True
        now = self._clock.now()
        stamp = Stamp(self._numbers.take()[0], self._worker(), now, now + self._lease)
        taken = claim.claim_one(
            self._database,
            self._number,
            stamp,
            max_lost=self._max_lost,
            is_rested=self._is_rested,
        )
        return Taken(taken, [])

    def look_again(self) -> None:
        """Nothing that is enqueued concerns it."""

    def take_abandoned(self, kinds: Collection[str], room: Room, *, alone: bool) -> Taken:
        return Taken([], [])

    def help(self) -> None:
        """It has one row only."""

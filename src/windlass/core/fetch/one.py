"""A written claim of one row, for a caller that runs it itself."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from windlass.clock import Clock
from windlass.core.fetch.claim import Taken
from windlass.core.fetch.rows import Rows
from windlass.core.run.load import Room
from windlass.database.database import Database
from windlass.database.dialect.base import Stamp
from windlass.database.number import Numbers


class Only(NamedTuple):
    """The only row that a worker runs, and whether no other worker takes rows of its kind."""

    task: int
    is_rested: bool = False


class OneClaim:
    """Takes one row, once, by a written claim."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        numbers: Numbers,
        only: Only,
        *,
        worker: Callable[[], int],
        lease: int,
        max_lost: int,
    ) -> None:
        self._rows = Rows(database)
        self._clock = clock
        self._numbers = numbers
        self._only = only
        self._worker = worker
        self._lease = lease
        self._max_lost = max_lost
        self._has_tried = False

    def tend(self) -> bool:
        return True

    def take(self, room: Room) -> Taken:
        if self._has_tried:
            return Taken()
        self._has_tried = True
        now = self._clock.now()
        stamp = Stamp(self._numbers.take()[0], self._worker(), now, now + self._lease)
        number, is_rested = self._only
        return Taken(
            self._rows.claim_one(number, stamp, max_lost=self._max_lost, is_rested=is_rested)
        )

    def look_again(self) -> None:
        pass

    def take_abandoned(self, kinds: Collection[str], room: Room, *, alone: bool) -> Taken:
        return Taken()

    def help(self) -> None:
        pass

"""The hand-off: rows that a finish makes due go straight to the runners of the same worker.

Only rows of buckets that this worker owns, and of kinds that nothing holds back. They wait here for
the thread of the fetcher, which alone takes rows and gives up buckets: so a row that it has read
meanwhile is not taken twice, and none of a bucket that it has given up. Every other due row is in
the database, and the owner of its bucket reads it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable

from windlass.core.run.in_flight import InFlight
from windlass.core.run.load import Room
from windlass.database.dialect.base import Executor
from windlass.value.task import Claimed


class HandOff:
    """Due rows on their way from the finish to the fetcher."""

    def __init__(
        self,
        in_flight: InFlight,
        *,
        is_near: Callable[[int], bool],
        is_ours: Callable[[Claimed], bool],
        wake_others: Callable[[Executor], None],
        fetch: Callable[[bool], None],
    ) -> None:
        self._in_flight = in_flight
        # Whether a bucket is owned by this worker.
        self.is_near = is_near
        # Whether a due row may run here without being read first.
        self._is_ours = is_ours
        self._wake_others = wake_others
        # Wakes the fetcher: for rows that were handed off, or to read as well.
        self._fetch = fetch
        self._lock = threading.Lock()
        self._rows: dict[int, Claimed] = {}

    def announce(self, executor: Executor, buckets: Collection[int]) -> None:
        """Rows of these buckets become due with the transaction: wake their owners."""
        if not all(map(self.is_near, buckets)):
            self._wake_others(executor)

    def put(self, rows: Collection[Claimed], *, due: int) -> None:
        """Hand off `rows`, of `due` rows in our buckets that a committed transaction made due."""
        ours = [row for row in rows if self._is_ours(row)]
        if ours:
            with self._lock:
                self._rows |= {row.id: row for row in ours if not self._in_flight.knows(row.id)}
            self._fetch(False)
        if len(ours) < due:
            self._fetch(True)

    def take(self, room: Room) -> list[Claimed]:
        """What fits into `room`; the rest is left to be read."""
        if not self._rows:
            return []
        with self._lock:
            rows, self._rows = self._rows, {}
        left = dict(room.kinds)
        taken: list[Claimed] = []
        for row in rows.values():
            if left.get(row.kind, 0) < 1 or len(taken) >= room.total or not self._is_ours(row):
                continue
            left[row.kind] -= 1
            taken.append(row)
        if len(taken) < len(rows):
            self._fetch(True)
        return taken

    def forget(self, taken: Iterable[Claimed]) -> None:
        """These were found by a read."""
        if self._rows:
            with self._lock:
                for row in taken:
                    self._rows.pop(row.id, None)

    def clear(self) -> None:
        """Leave all of them to be read: their buckets may belong to other workers."""
        with self._lock:
            self._rows.clear()

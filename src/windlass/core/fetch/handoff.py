"""The hand-off: rows that a finish makes due go straight to the runners of the same worker.

Only rows of this worker's buckets, and of kinds that nothing holds back, are handed off. They wait
for the fetcher's thread. Only that thread takes rows and releases buckets, so it never takes a row
twice, nor a row of a bucket that it released. The owner of the bucket reads all other due rows.
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
        # Whether this worker owns a bucket.
        self.is_near = is_near
        # Whether a due row may run here without a read.
        self._is_ours = is_ours
        self._wake_others = wake_others
        # Wakes the fetcher to take handed-off rows; with True, to read as well.
        self._fetch = fetch
        self._lock = threading.Lock()
        self._rows: dict[int, Claimed] = {}

    def announce(self, executor: Executor, buckets: Collection[int]) -> None:
        """The transaction makes rows of these buckets due: wake their owners."""
        if not all(map(self.is_near, buckets)):
            self._wake_others(executor)

    def put(self, rows: Collection[Claimed], *, due: int) -> None:
        """Hand off `rows`, which are some of the `due` rows that a transaction made due here."""
        ours = [row for row in rows if self._is_ours(row)]
        if ours:
            with self._lock:
                self._rows |= {row.id: row for row in ours if not self._in_flight.knows(row.id)}
            self._fetch(False)
        if len(ours) < due:
            self._fetch(True)

    def take(self, room: Room) -> list[Claimed]:
        """The rows that fit into `room`. A read finds the others."""
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
        """A read found these rows."""
        if self._rows:
            with self._lock:
                for row in taken:
                    self._rows.pop(row.id, None)

    def clear(self) -> None:
        """Drop all rows: their buckets may belong to other workers, which read them."""
        with self._lock:
            self._rows.clear()

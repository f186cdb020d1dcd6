"""A guest: a worker's row in another shard, or of a caller, that holds permits and nothing else."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from typing import NamedTuple

from windlass.clock import SECOND, Clock
from windlass.core.face import Faces
from windlass.core.ring import store as ring_store
from windlass.core.ring.heartbeat import LeaseWatch, beat_seconds, leave, mark_dead
from windlass.database.connection import Connection
from windlass.database.database import DATABASE_ERRORS, Database, Numbers
from windlass.errors import DatabaseUnavailable

NOTHING = ring_store.Kinds(serves=[], declares=[])


class Place(NamedTuple):
    """The database of a limit, with its clock, its numbers and its faces."""

    database: Database
    clock: Clock
    numbers: Numbers
    faces: Faces


class Guest:
    """Joins when it first beats, renews its lease, and joins again if it was marked left.

    It marks silent workers dead, as every worker does: there may be no other to free their permits.
    """

    def __init__(self, place: Place, *, dead_after: int) -> None:
        self._place = place
        self._dead_after = dead_after
        self._renewed_at = 0.0
        self._watch = LeaseWatch()
        self.id = 0
        self.good_until = 0.0

    def beat(self) -> None:
        """Join, or renew the lease, if it is time."""
        before = time.monotonic()
        if before - self._renewed_at < beat_seconds(self._dead_after):
            return
        if self.id == 0 or not self._renew():
            self._join()
        self._renewed_at, self.good_until = before, before + self._dead_after / SECOND
        self._mark_dead()

    def leave(self) -> None:
        """Leave; its permits are free. Others mark it dead if the database does not answer."""
        number, self.id = self.id, 0
        if number:
            database, now = self._place.database, self._place.clock.now()
            with suppress(DatabaseUnavailable, *DATABASE_ERRORS, OSError), database.hasty(2):
                leave(database, Faces({}), number=number, now=now, why="stopped", due={})

    def _renew(self) -> bool:
        lease_until = self._place.clock.now() + self._dead_after
        return self._place.database.single(
            lambda connection: ring_store.renew(
                connection, number=self.id, lease_until=lease_until
            ),
            tries=1,
        )

    def _join(self) -> None:
        self.id = 0
        number, now = self._place.numbers.take()[0], self._place.clock.now()

        def work(connection: Connection) -> None:
            ring_store.join(
                connection,
                number=number,
                host=socket.gethostname(),
                pid=os.getpid(),
                kinds=NOTHING,
                now=now,
                lease_until=now + self._dead_after,
            )

        self._place.database.write(work, tries=2)
        self.id = number

    def _mark_dead(self) -> None:
        database, now = self._place.database, time.monotonic()
        self._watch.see(database.read(ring_store.workers, tries=1), at=now)
        silent = self._watch.unchanged(2 * self._dead_after / SECOND, at=now)
        for number, lease in silent.items():
            if number != self.id:
                faces, at = self._place.faces, self._place.clock.now()
                mark_dead(database, faces, number=number, now=at, lease=lease)

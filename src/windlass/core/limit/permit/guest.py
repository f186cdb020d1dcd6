"""A guest: a worker's row in another shard, or of a caller, that holds permits and nothing else."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress

from windlass.clock import SECOND, Clock
from windlass.core.face import Faces
from windlass.core.ring import store as ring_store
from windlass.core.ring.heartbeat import beat_seconds, leave
from windlass.database.connection import Connection
from windlass.database.database import DATABASE_ERRORS, Database, Numbers
from windlass.errors import DatabaseUnavailable

NOTHING = ring_store.Kinds(serves=[], declares=[])


class Guest:
    """Joins when it is first needed, renews its lease, and joins again if it was marked left."""

    def __init__(
        self, database: Database, clock: Clock, numbers: Numbers, *, dead_after: int
    ) -> None:
        self._database = database
        self._clock = clock
        self._numbers = numbers
        self._dead_after = dead_after
        self._renewed_at = 0.0
        self.id = 0
        self.good_until = 0.0

    def beat(self) -> None:
        """Join, or renew the lease if it is time."""
        before = time.monotonic()
        if before - self._renewed_at < beat_seconds(self._dead_after):
            return
        lease_until = self._clock.now() + self._dead_after
        if self.id == 0 or not self._database.single(
            lambda connection: ring_store.renew(
                connection, number=self.id, lease_until=lease_until
            ),
            tries=1,
        ):
            self._join(lease_until)
        self._renewed_at, self.good_until = before, before + self._dead_after / SECOND

    def leave(self) -> None:
        """Leave; its permits are free. Others mark it dead if the database does not answer."""
        if self.id:
            with suppress(DatabaseUnavailable, *DATABASE_ERRORS, OSError):
                faces, now = Faces({}), self._clock.now()
                with self._database.hasty(2):
                    leave(self._database, faces, number=self.id, now=now, why="stopped", due={})
        self.id = 0

    def _join(self, lease_until: int) -> None:
        self.id = 0
        number = self._numbers.take()[0]

        def work(connection: Connection) -> None:
            ring_store.join(
                connection,
                number=number,
                host=socket.gethostname(),
                pid=os.getpid(),
                kinds=NOTHING,
                now=self._clock.now(),
                lease_until=lease_until,
            )

        self._database.write(work, tries=2)
        self.id = number

"""How a worker ends: it leaves and hands back its rows, or it is marked dead and abandons them.

Both happen in one transaction that has the worker's row locked exclusively, so that nothing else
can act for the worker.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass.core.face import Faces
from windlass.core.ring.store import bucket, held, worker
from windlass.database.connection import Connection
from windlass.database.database import Database


def mark_dead(
    database: Database,
    faces: Faces,
    *,
    number: int,
    now: int,
    why: str = "it missed its heartbeat",
    by_lease: bool = True,
) -> int | None:
    """Mark a silent worker left and abandon its rows; how many, or None if it is alive.

    Its claims become due at once and lose their batch, so nothing that it still writes matches.
    Also None if another transaction keeps one of the rows locked: the caller must not miss its own
    heartbeat, and tries again at the next one.
    """

    def work(connection: Connection) -> int | None:
        dialect = database.dialect
        if not worker.mark_dead(
            connection, dialect, number=number, now=now, why=why, by_lease=by_lease
        ):
            return None
        abandoned = faces.abandon(connection, number)
        bucket.abandon(connection, number, now=now)
        return abandoned + held.abandon(connection, number, now=now)

    return database.write_unless_locked(work, locked=None)


def leave(
    database: Database, faces: Faces, *, number: int, now: int, why: str, due: Mapping[str, int]
) -> int | None:
    """Leave and hand back all claims without counting the attempt; None if already marked left.

    The rows are due now, or at the time that `due` has for their kind.
    """

    def work(connection: Connection) -> int | None:
        if not worker.leave(connection, database.dialect, number=number, now=now, why=why):
            return None
        handed_back = faces.hand_back(connection, number)
        bucket.leave(connection, number)
        return handed_back + held.hand_back(connection, worker=number, now=now, due=due)

    return database.write(work)

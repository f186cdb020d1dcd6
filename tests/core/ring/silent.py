"""Marks a worker dead, as another worker does that has watched it."""

from sqlalchemy import select

from windlass.core.face import Faces
from windlass.core.ring import heartbeat
from windlass.database.database import Database
from windlass.database.schema import worker


def mark_dead(database: Database, faces: Faces, *, number: int, now: int, why: str) -> int | None:
    """Mark it dead, unless its lease lasts: then whoever watched it has seen an older one."""
    lease_until = select(worker.c.lease_until).where(worker.c.id == number)
    lease = database.read(lambda connection: connection.scalar(lease_until))
    seen = lease if lease is None or lease < now else lease - 1
    return heartbeat.mark_dead(database, faces, number=number, now=now, lease=seen, why=why)

"""Workers: which are alive, and which have left.

Only the row of a worker says whether it is alive. A transaction that writes for a worker holds a
shared lock on that row; marking it left takes an exclusive lock. So a write of a worker is either
committed before the worker is marked left, or it does not happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Text, cast, insert, or_, select, update

from windlass.database.dialect.base import Dialect
from windlass.database.schema import shard, task, worker
from windlass.value.status import Status
from windlass.view.field import Moment

KEEP_LEFT = 7 * 86_400 * 1_000_000
MOST_IDLE = 32_000

SEEN = (
    worker.c.id,
    worker.c.host,
    worker.c.pid,
    worker.c.joined_at,
    worker.c.lease_until,
    worker.c.idle,
    worker.c.left_at,
    worker.c.left_why,
    worker.c.kinds,
)
# As `join` writes it. Such a worker runs one row, and is not a member of the ring.
SERVES_NOTHING = '{"serves":[],%'


@dataclass(frozen=True)
class WorkerView:
    """A worker as people see it. Times are microseconds since the epoch."""

    id: int
    host: str
    pid: int
    joined_at: Moment
    lease_until: Moment
    idle: int
    left_at: Moment | None
    left_why: str | None
    kinds: list[str]
    declared: list[str]


class Kinds(msgspec.Struct, frozen=True):
    """The kinds that a worker runs, and all that its app declares."""

    serves: list[str]
    declares: list[str]


def join(
    connection: Connection,
    *,
    number: int,
    host: str,
    pid: int,
    kinds: Kinds,
    now: int,
    lease_until: int,
) -> None:
    """Add a worker that holds nothing. Repeating it changes nothing."""
    if connection.scalar(select(worker.c.id).where(worker.c.id == number)) is not None:
        return
    connection.execute(
        insert(worker).values(
            id=number,
            host=host[:255],
            pid=pid,
            lease_until=lease_until,
            joined_at=now,
            kinds=msgspec.json.encode(kinds).decode(),
        )
    )


def renew(connection: Connection, *, number: int, lease_until: int, idle: int = 0) -> bool:
    """Renew the lease of a worker; False if it was marked left.

    `idle` is how many more rows it could start soon; 0 if it has enough to do.
    """
    result = connection.execute(
        update(worker)
        .where(worker.c.id == number, worker.c.left_at.is_(None))
        .values(lease_until=lease_until, idle=min(idle, MOST_IDLE))
    )
    return bool(result.rowcount)


def agree(connection: Connection, members: str, *, now: int) -> tuple[str, str]:
    """The name of the ring, and its membership: `members` if no live worker uses another."""
    found = connection.execute(select(shard.c.ring, shard.c.members).with_for_update()).one()
    if found.members == members:
        return found.ring, members
    others = select(worker.c.id).where(worker.c.left_at.is_(None), worker.c.lease_until >= now)
    if connection.scalar(others.limit(1)) is not None:
        return found.ring, found.members
    connection.execute(update(shard).values(members=members))
    return found.ring, members


def mark_dead(
    connection: Connection, dialect: Dialect, *, number: int, now: int, why: str, by_lease: bool
) -> bool:
    """Mark a silent worker left; False if it is alive, or has left already.

    Its row stays locked, so nothing else can act for it until the transaction ends. Without
    `by_lease` its lease does not count: the coordinator has said that it is dead.
    """
    if not dialect.lock_worker(connection, number, patient=False):
        return False
    lease_until = connection.scalar(select(worker.c.lease_until).where(worker.c.id == number))
    if lease_until is None or (by_lease and lease_until >= now):
        return False
    _leave(connection, number, now=now, why=why)
    return True


def leave(connection: Connection, dialect: Dialect, *, number: int, now: int, why: str) -> bool:
    """Mark the worker left; False if it was already. Its row stays locked."""
    if not dialect.lock_worker(connection, number):
        return False
    _leave(connection, number, now=now, why=why)
    return True


def present(connection: Connection) -> set[int]:
    """The ids of all workers that have not left."""
    return set(connection.scalars(select(worker.c.id).where(worker.c.left_at.is_(None))))


def listing(connection: Connection, *, left_since: int | None = None) -> list[WorkerView]:
    """Workers that have not left, and those that left after `left_since`."""
    there: ColumnElement[bool] = worker.c.left_at.is_(None)
    if left_since is not None:
        there = or_(there, worker.c.left_at >= left_since)
    rows = connection.execute(select(*SEEN).where(there).order_by(worker.c.id))
    return [_view(row) for row in rows]


def recent(connection: Connection, *, limit: int) -> list[WorkerView]:
    """The `limit` members of the ring that joined last, and the `limit` that left last."""
    kinds = cast(worker.c.kinds, Text)
    members = select(*SEEN).where(kinds.not_like(SERVES_NOTHING)).limit(limit)
    joined = members.order_by(worker.c.id.desc())
    left = members.where(worker.c.left_at.is_not(None)).order_by(worker.c.left_at.desc())
    found = [_view(row) for query in (joined, left) for row in connection.execute(query)]
    return list({view.id: view for view in found}.values())


def known_by(connection: Connection) -> str:
    """The kind of membership that the workers of the ring use, or used last."""
    return str(connection.execute(select(shard.c.members)).scalar_one())


def forget(connection: Connection, *, now: int) -> int:
    """Delete workers that left long ago and that no running row names."""
    gone = select(worker.c.id).where(worker.c.left_at < now - KEEP_LEFT)
    held = select(task.c.worker).where(
        task.c.status == Status.RUNNING, task.c.due_at.is_not(None), task.c.worker.is_not(None)
    )
    ids = connection.scalars(gone.where(worker.c.id.not_in(held)).limit(1_000)).all()
    if ids:
        connection.execute(worker.delete().where(worker.c.id.in_(ids)))
    return len(ids)


def _leave(connection: Connection, number: int, *, now: int, why: str) -> None:
    connection.execute(
        update(worker).where(worker.c.id == number).values(left_at=now, left_why=why[:255])
    )


def _view(row: Sequence[Any]) -> WorkerView:
    number, host, pid, joined_at, lease_until, idle, left_at, left_why, stored = row
    kinds = msgspec.json.decode(stored, type=Kinds)
    return WorkerView(
        number,
        host,
        pid,
        joined_at,
        lease_until,
        idle,
        left_at,
        left_why,
        kinds=kinds.serves,
        declared=kinds.declares,
    )

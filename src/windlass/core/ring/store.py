"""The rows of the ring: workers, the buckets that they own, and the claims that they hold.

Call the functions that change claims in a transaction that has checked that the worker is alive, or
that marks it left.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    BigInteger,
    Connection,
    Select,
    Text,
    bindparam,
    case,
    cast,
    delete,
    insert,
    literal_column,
    or_,
    select,
    true,
    update,
)

from windlass.core.task.store import lane
from windlass.database.dialect.base import Dialect, Stamp, force_index
from windlass.database.schema import bucket, shard, task, worker
from windlass.value.period import GOES
from windlass.value.status import Status
from windlass.value.task import Claimed
from windlass.view.field import Moment

KEEP_LEFT = 7 * 86_400 * 1_000_000
MOST_IDLE = 32_000
# In place of `idle`: the guard has renewed the lease, because the worker itself could not.
GUARDED = -1

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


# Made once, as they run in each heartbeat: to make a statement costs more than to run it.
THERE = select(*SEEN).where(worker.c.left_at.is_(None)).order_by(worker.c.id)
_UNTIL = bindparam("until", type_=BigInteger)
RENEW = (
    update(worker)
    .where(worker.c.id == bindparam("number"), worker.c.left_at.is_(None))
    .values(
        lease_until=case((worker.c.lease_until == _UNTIL, _UNTIL + 1), else_=_UNTIL),
        idle=bindparam("room"),
    )
)


def renew(connection: Connection, *, number: int, lease_until: int, idle: int = 0) -> bool:
    """Renew the lease of a worker; False if it was marked left.

    The lease is always another one than before: others see by the change that it is alive.
    `idle` is how many more rows it could start soon; 0 if it has enough to do.
    """
    asked = {"number": number, "until": lease_until, "room": min(idle, MOST_IDLE)}
    return bool(connection.execute(RENEW, asked).rowcount)


def renewal_text(mark: str) -> str:
    """`renew` by the guard, for a driver whose parameters are `mark`: lease end, worker, lease end.

    It never takes back a renewal that was made meanwhile.
    """
    return (
        f"update windlass_worker set lease_until = {mark}, idle = {GUARDED} "
        f"where id = {mark} and left_at is null and lease_until < {mark}"
    )


def guarded(connection: Connection) -> set[int]:
    """The workers whose guards renewed last."""
    there = worker.c.left_at.is_(None), worker.c.idle == GUARDED
    return set(connection.scalars(select(worker.c.id).where(*there)))


def users_of_other(connection: Connection, *, members: str) -> list[WorkerView]:
    """The workers that have not left, if they use another kind of membership than `members`."""
    return [] if known_by(connection) == members else workers(connection)


def agree(
    connection: Connection, members: str, *, now: int, silent: Mapping[int, int]
) -> tuple[str, str]:
    """The name of the ring, and its membership: `members` if no live worker uses another.

    A worker may be dead if by the clock its lease has ended. It is, if it still has the lease in
    `silent`: the caller has watched it.
    """
    found = connection.execute(select(shard.c.ring, shard.c.members).with_for_update()).one()
    if found.members == members:
        return found.ring, members
    others = select(worker.c.id, worker.c.lease_until).where(worker.c.left_at.is_(None))
    for number, lease_until in connection.execute(others):
        if lease_until >= now or silent.get(number) != lease_until:
            return found.ring, found.members
    connection.execute(update(shard).values(members=members))
    return found.ring, members


def mark_dead(
    connection: Connection,
    dialect: Dialect,
    *,
    number: int,
    now: int,
    why: str,
    lease: int | None,
) -> bool:
    """Mark a silent worker left; False if it is alive, or has left already.

    Its row stays locked, so nothing else can act for it until the transaction ends. It is alive if
    its lease is not `lease`. With None the coordinator has said that it is dead, and its lease does
    not count, unless its guard renewed it.
    """
    if not dialect.lock_worker(connection, number, patient=False):
        return False
    query = select(worker.c.lease_until, worker.c.idle).where(worker.c.id == number)
    found = connection.execute(query).first()
    if found is None:
        return False
    if found.idle == GUARDED if lease is None else found.lease_until != lease:
        return False
    _leave(connection, number, now=now, why=why)
    return True


def leave(connection: Connection, dialect: Dialect, *, number: int, now: int, why: str) -> bool:
    """Mark the worker left; False if it was already. Its row stays locked."""
    if not dialect.lock_worker(connection, number):
        return False
    _leave(connection, number, now=now, why=why)
    return True


def workers_and_time(connection: Connection, dialect: Dialect) -> tuple[list[WorkerView], int]:
    """Workers that have not left, and the database's time: on a server in one statement."""
    if dialect.is_embedded:
        return workers(connection), dialect.measure(connection)
    rows = connection.execute(_there_and_time(dialect.clock_text)).all()
    now = int(rows[0][-1]) if rows else dialect.measure(connection)
    return [_view(row[:-1]) for row in rows], now


@cache
def _there_and_time(clock: str) -> Select[Any]:
    return THERE.add_columns(literal_column(f"({clock})"))


def workers(connection: Connection, *, left_since: int | None = None) -> list[WorkerView]:
    """Workers that have not left, and those that left after `left_since`."""
    query = THERE
    if left_since is not None:
        there = or_(worker.c.left_at.is_(None), worker.c.left_at >= left_since)
        query = select(*SEEN).where(there).order_by(worker.c.id)
    return [_view(row) for row in connection.execute(query)]


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


def forget_workers(connection: Connection, *, now: int) -> int:
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
        max(0, idle),
        left_at,
        left_why,
        kinds=kinds.serves,
        declared=kinds.declares,
    )


class Bucket(NamedTuple):
    """The owner of a bucket, and when its last owner that died was marked dead; 0 if none died."""

    owner: int | None
    careful_to: int


def acquire(connection: Connection, worker: int, wanted: range) -> None:
    """Own the wanted buckets that have no owner."""
    if wanted:
        connection.execute(
            update(bucket)
            .where(bucket.c.bucket.between(wanted[0], wanted[-1]), bucket.c.owner.is_(None))
            .values(owner=worker)
        )


def owned(connection: Connection, worker: int) -> dict[int, int]:
    """The buckets of a worker, each with its `careful_to`."""
    rows = connection.execute(
        select(bucket.c.bucket, bucket.c.careful_to).where(bucket.c.owner == worker)
    )
    return {row.bucket: row.careful_to for row in rows}


def release(connection: Connection, worker: int, given_up: Iterable[int]) -> None:
    """Free these buckets of a worker."""
    connection.execute(
        update(bucket)
        .where(bucket.c.bucket.in_(sorted(given_up)), bucket.c.owner == worker)
        .values(owner=None)
    )


def leave_buckets(connection: Connection, worker: int) -> None:
    """Free all buckets of a worker that stops normally."""
    connection.execute(update(bucket).where(bucket.c.owner == worker).values(owner=None))


def abandon_buckets(connection: Connection, worker: int, *, now: int) -> None:
    """Free all buckets of a worker that died. A row that was due by now may have killed it."""
    connection.execute(
        update(bucket).where(bucket.c.owner == worker).values(owner=None, careful_to=now)
    )


def buckets(connection: Connection) -> dict[int, Bucket]:
    """All buckets."""
    rows = connection.execute(select(bucket).order_by(bucket.c.bucket))
    return {row.bucket: Bucket(row.owner, row.careful_to) for row in rows}


def owner_of(connection: Connection, number: int) -> int | None:
    """The owner of a bucket; it stays the owner until the transaction ends."""
    query = select(bucket.c.owner).where(bucket.c.bucket == number).with_for_update(read=True)
    return connection.scalar(query)


def kept_owners(connection: Connection, numbers: Iterable[int]) -> dict[int, int | None]:
    """The owners of these buckets; they stay the owners until the transaction ends."""
    rows = connection.execute(
        select(bucket.c.bucket, bucket.c.owner)
        .where(bucket.c.bucket.in_(sorted(numbers)))
        .order_by(bucket.c.bucket)
        .with_for_update(read=True)
    )
    return {row.bucket: row.owner for row in rows}


def keep(connection: Connection, owners: Collection[int]) -> list[int]:
    """The buckets of these owners; they stay theirs until the transaction ends."""
    return list(
        connection.scalars(
            select(bucket.c.bucket)
            .where(bucket.c.owner.in_(owners))
            .order_by(bucket.c.bucket)
            .with_for_update(read=True)
        )
    )


def keep_alone(connection: Connection, owners: Collection[int]) -> list[int]:
    """`keep` for one transaction at a time."""
    return list(
        connection.scalars(
            select(bucket.c.bucket)
            .where(bucket.c.owner.in_(owners))
            .order_by(bucket.c.bucket)
            .with_for_update()
        )
    )


def runs_of(buckets: Iterable[int]) -> list[range]:
    """Buckets as contiguous runs."""
    found: list[range] = []
    for number in sorted(buckets):
        if found and found[-1].stop == number:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return found


NOTHING: Mapping[str, int] = MappingProxyType({})


def mark(connection: Connection, rows: Sequence[Claimed], stamp: Stamp) -> set[int]:
    """Write the claims of rows that were read; the ids of those that have not changed since."""
    connection.execute(
        update(task)
        .where(task.c.id == bindparam("number"), task.c.status == Status.WAITING)
        .where(task.c.batch.is_(None), task.c.due_at == bindparam("due"))
        .values(
            status=Status.RUNNING,
            batch=stamp.batch,
            worker=stamp.worker,
            due_at=stamp.lease_end,
            attempt=task.c.attempt + 1,
            started_at=bindparam("started"),
        ),
        [
            {"number": row.id, "due": row.due_at, "started": row.started_at}
            for row in sorted(rows, key=lambda row: row.id)
        ],
    )
    ids = [row.id for row in rows]
    marked = select(task.c.id).where(task.c.id.in_(ids), task.c.batch == stamp.batch)
    return set(connection.scalars(marked))


def push(connection: Connection, held: dict[int, int], *, worker: int, until: int) -> set[int]:
    """Extend the lease of held rows, id to batch, to `until`; the ids that are still held."""
    ours = (
        select(task.c.id)
        .where(task.c.id.in_(held), task.c.status == Status.RUNNING, task.c.worker == worker)
        .where(task.c.batch.in_(set(held.values())))
        .order_by(task.c.id)
        .with_for_update()
    )
    kept = set(connection.scalars(force_index(ours, task, "primary")))
    if kept:
        connection.execute(update(task).where(task.c.id.in_(kept)).values(due_at=until))
    return kept


def still_held(connection: Connection, held: dict[int, int]) -> set[int]:
    """Which of the held rows, id to batch, are still ours."""
    rows = connection.execute(
        select(task.c.id, task.c.batch).where(task.c.id.in_(held), task.c.status == Status.RUNNING)
    )
    return {number for number, batch in rows if held[number] == batch}


def claimed_by(worker: int) -> Select[int]:
    """The rows that `worker` has claimed, read from the index of running rows.

    It takes no locks: they would wait for rows of other workers. Call it when nothing else can act
    for `worker`, or lock the rows by id and check them again.
    """
    running = task.c.status == Status.RUNNING, task.c.due_at.is_not(None)
    query = select(task.c.id).where(*running, task.c.worker == worker)
    return force_index(query, task, "windlass_task_due")


def let_go(connection: Connection, ids: Collection[int]) -> None:
    """Delete the items among freed rows that were removed while they ran."""
    connection.execute(
        delete(task)
        .where(task.c.id.in_(ids), task.c.batch.is_(None))
        .where(task.c.prune_at == GOES)
    )


def put_back(connection: Connection, rows: Sequence[Claimed]) -> None:
    """Make claimed rows that have not started wait again, as if they had never been claimed."""
    connection.execute(
        update(task)
        .where(task.c.id == bindparam("number"), task.c.status == Status.RUNNING)
        .where(task.c.batch == bindparam("claim"))
        .values(
            status=Status.WAITING,
            batch=None,
            worker=None,
            due_at=bindparam("due"),
            attempt=task.c.attempt - 1,
            # If its last worker died, its due time has changed, but it was the first of its lane.
            **lane.holding(connection),
        ),
        [{"number": row.id, "claim": row.batch, "due": row.due_at} for row in rows],
    )
    let_go(connection, [row.id for row in rows])


def abandon_claims(connection: Connection, worker: int, *, now: int) -> int:
    """Let others take over the claims of a worker that was just marked dead; how many."""
    ids = connection.scalars(claimed_by(worker)).all()
    if ids:
        connection.execute(
            update(task)
            .where(task.c.id.in_(ids), task.c.status == Status.RUNNING)
            .values(due_at=now, batch=None)
        )
        let_go(connection, ids)
    return len(ids)


def hand_back(
    connection: Connection,
    *,
    worker: int,
    now: int,
    due: Mapping[str, int] = NOTHING,
    unless: Container[int] | None = None,
) -> int:
    """Make the claimed rows of `worker` wait again, as if they had never been claimed.

    They are due now, or at the time that `due` has for their kind: its last tick. With `unless`,
    only lapsed claims that are not in it are handed back: the answer to those claims was lost.
    """
    query = claimed_by(worker)
    if unless is not None:
        query = query.where(task.c.due_at <= now)
    ids = [number for number in connection.scalars(query) if unless is None or number not in unless]
    if ids:
        connection.execute(
            update(task)
            .where(task.c.id.in_(ids), task.c.status == Status.RUNNING, task.c.worker == worker)
            .where(task.c.due_at <= now if unless is not None else true())
            .values(
                status=Status.WAITING,
                batch=None,
                worker=None,
                due_at=case(dict(due), value=task.c.kind, else_=now) if due else now,
                attempt=task.c.attempt - 1,
                # Its due time has changed, but it was the first of its lane.
                **lane.holding(connection),
            )
        )
        let_go(connection, ids)
    return len(ids)

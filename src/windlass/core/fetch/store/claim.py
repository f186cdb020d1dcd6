"""Written claims: stamp rows with a batch, so that they belong to one worker until they end.

Call these in a transaction that has checked that the worker is alive (`Database.write_as`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import msgspec
from sqlalchemy import Connection, false, or_, select, update

from windlass.core.ring.store import bucket
from windlass.database.dialect.base import Dialect, Lane, Most, Stamp, stamped
from windlass.database.dialect.choice import force_index
from windlass.database.schema import task, worker
from windlass.value.status import Status
from windlass.value.task import Claimed

PICKED = (
    task.c.id,
    task.c.kind,
    task.c.task_key,
    task.c.priority,
    task.c.due_at,
    task.c.payload,
    task.c.attempt,
    task.c.lost,
    task.c.started_at,
    task.c.bucket,
    task.c.flow_id,
)


def claim_foreign(
    connection: Connection,
    dialect: Dialect,
    lane: Lane,
    *,
    stamp: Stamp,
    most: Most,
    owners: Collection[int],
) -> list[Claimed]:
    """Take due rows of `lane` in buckets whose owners do not serve its kind, oldest first.

    The buckets stay locked, so that no worker that serves the kind can acquire one.
    """
    buckets = bucket.keep(connection, owners)
    if not buckets:
        return []
    due = (
        select(*PICKED)
        .where(task.c.status == Status.WAITING, task.c.kind == lane.kind)
        .where(task.c.priority == lane.priority)
        .where(task.c.due_at.between(lane.due_at, most.due_until))
        .where(task.c.bucket.in_(buckets), task.c.batch.is_(None))
        .where(task.c.lost_in_a_row.between(most.lost.start, most.lost.stop - 1))
        .order_by(task.c.due_at)
        .limit(most.limit)
        .with_for_update(skip_locked=True)
    )
    rows = connection.execute(force_index(due, task, "windlass_task_due")).all()
    if rows:
        dialect.stamp(connection, [row.id for row in rows], stamp)
    return [stamped(row, stamp) for row in rows]


def claim_one(
    connection: Connection, number: int, stamp: Stamp, *, max_lost: int, is_rested: bool
) -> list[Claimed]:
    """Take one waiting or abandoned row, due or not; nothing if it is taken or gone.

    Takes nothing if the owner of its bucket serves its kind and may have read it, unless the kind
    `is_rested`: no worker has read its rows for a while. Leaves poison to a worker.
    """
    found = connection.execute(
        select(task.c.kind, task.c.bucket).where(task.c.id == number)
    ).first()
    if found is None:
        return []
    if not is_rested and _is_read_by_owner(connection, found.kind, found.bucket):
        return []
    row = connection.execute(
        select(*PICKED, task.c.status, task.c.lost_in_a_row)
        .where(task.c.id == number, task.c.batch.is_(None))
        .where(task.c.status.in_((Status.WAITING, Status.RUNNING)))
        .with_for_update()
    ).first()
    if row is None:
        return []
    lost = int(row.status == Status.RUNNING)
    taken = stamped(row[:-2], stamp, lost=lost)
    if row.lost_in_a_row + lost >= max_lost:
        return []
    connection.execute(
        update(task)
        .where(task.c.id == number)
        .values(
            status=Status.RUNNING,
            batch=stamp.batch,
            worker=stamp.worker,
            due_at=stamp.lease_end,
            attempt=taken.attempt,
            lost=taken.lost,
            lost_in_a_row=row.lost_in_a_row + lost,
            started_at=taken.started_at,
        )
    )
    return [taken]


def _is_read_by_owner(connection: Connection, kind: str, number: int) -> bool:
    """Whether the bucket's owner serves the kind. The answer holds until the transaction ends."""
    owner = bucket.owner(connection, number)
    if owner is None:
        return False
    kinds = connection.scalar(
        select(worker.c.kinds).where(worker.c.id == owner, worker.c.left_at.is_(None))
    )
    return kinds is not None and kind in msgspec.json.decode(kinds)["serves"]


def some_quarantined(
    connection: Connection,
    lanes: Iterable[Lane],
    alone_from: Callable[[str], int],
    *,
    buckets: Iterable[range],
    now: int,
) -> bool:
    """Whether a due row of `lanes` in these buckets must run alone.

    `alone_from` is, by kind, how often such a row was lost in a row.
    """
    ours = [task.c.bucket.between(run.start, run.stop - 1) for run in buckets]
    return any(
        connection.scalar(
            select(task.c.id)
            .where(task.c.status == Status.WAITING, task.c.kind == lane.kind)
            # Starts at the first due row: the index may still have ended rows before it.
            .where(task.c.priority == lane.priority, task.c.due_at.between(lane.due_at, now))
            .where(task.c.lost_in_a_row >= alone_from(lane.kind), or_(false(), *ours))
            .limit(1)
        )
        for lane in lanes
    )

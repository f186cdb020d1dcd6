"""The claims that a worker holds: write, extend, put back, hand back, abandon.

Call these in a transaction that has checked that the worker is alive, or that marks it left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from sqlalchemy import Connection, Select, bindparam, case, delete, select, true, update

from windlass.database.dialect.base import Stamp
from windlass.database.dialect.choice import force_index
from windlass.database.schema import task
from windlass.value.period import GOES
from windlass.value.status import Status
from windlass.value.task import Claimed

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
    kept = set(
        connection.scalars(
            select(task.c.id)
            .where(task.c.id.in_(held), task.c.status == Status.RUNNING, task.c.worker == worker)
            .where(task.c.batch.in_(set(held.values())))
            .order_by(task.c.id)
            .with_for_update()
        )
    )
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
        ),
        [{"number": row.id, "claim": row.batch, "due": row.due_at} for row in rows],
    )
    let_go(connection, [row.id for row in rows])


def abandon(connection: Connection, worker: int, *, now: int) -> int:
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
    unless: Callable[[int], bool] | None = None,
) -> int:
    """Make the claimed rows of `worker` wait again, as if they had never been claimed.

    They are due now, or at the time that `due` has for their kind: its last tick. With `unless`,
    only lapsed claims that it does not know are handed back: the answer to those claims was lost.
    """
    query = claimed_by(worker)
    if unless is not None:
        query = query.where(task.c.due_at <= now)
    ids = [number for number in connection.scalars(query) if unless is None or not unless(number)]
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
            )
        )
        let_go(connection, ids)
    return len(ids)

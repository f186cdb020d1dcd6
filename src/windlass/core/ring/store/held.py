"""The claims that a worker holds: written down, pushed, put back and handed back.

Call these in a transaction that knows the worker to be alive, or that ends it.
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
    """Write down the claims of rows that were read; the ids of those that are as they were read.

    Call it in a transaction that knows the worker to be alive.
    """
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
    """Move the lease of held rows, id to batch, to `until`; returns those that are still held."""
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
    """The rows that `worker` holds by a claim, by way of the index that has all that runs.

    It takes no locks, which would wait for rows of other workers on the way. Call it when nothing
    else can act for `worker`, or lock what it finds by id and look again.
    """
    running = task.c.status == Status.RUNNING, task.c.due_at.is_not(None)
    query = select(task.c.id).where(*running, task.c.worker == worker)
    return force_index(query, task, "windlass_task_due")


def let_go(connection: Connection, ids: Collection[int]) -> None:
    """Delete the items among rows that were just freed whose run was all that kept them."""
    connection.execute(
        delete(task)
        .where(task.c.id.in_(ids), task.c.batch.is_(None))
        .where(task.c.prune_at == GOES)
    )


def put_back(connection: Connection, rows: Sequence[Claimed]) -> None:
    """Make claimed rows that have not begun waiting again, as if they had never been taken."""
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
    """Let others take over the claims of a worker that was just marked left; how many."""
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
    """Make the claims of `worker` waiting again as if they had never been taken.

    They are due now, or when `due` says for their kind: at its last tick, if it has one.

    With `unless`, only lapsed claims are handed back, and of those only the ones it does not know:
    claims whose answer was lost on the way.
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

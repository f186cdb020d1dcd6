"""What promises are judged by: bounded reads of statistics, due rows and retried rows."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from windlass.core.finish.store import OVERLOAD_TABLES, Work
from windlass.database.database import has_tables
from windlass.database.dialect.base import Tier, force_index
from windlass.database.schema import failure, overload, stat, task
from windlass.value.status import Status

# Due rows are counted up to this many.
COUNTED = 2_000
RUNNING_READ = 1_000
FAILURES_READ = 200


def recent_work(connection: Connection, *, since: int) -> dict[str, dict[int, Work]]:
    """The work on all kinds since a minute, by kind and minute."""
    sums = [func.sum(column) for column in (stat.c.done, stat.c.failed, stat.c.retried)]
    rows = connection.execute(
        select(stat.c.kind, stat.c.minute, *sums, func.sum(stat.c.milliseconds))
        .where(stat.c.minute >= since)
        .group_by(stat.c.kind, stat.c.minute)
    )
    found: dict[str, dict[int, Work]] = {}
    for kind, minute, *counts in rows:
        found.setdefault(kind, {})[minute] = Work(kind, *(int(count) for count in counts))
    return found


def due_count(connection: Connection, tier: Tier, *, until: int) -> int:
    """How many rows of a tier are due by `until`, counted up to COUNTED + 1."""
    few = (
        select(task.c.due_at)
        .where(task.c.status == Status.WAITING, task.c.kind == tier.kind)
        .where(task.c.priority == tier.priority, task.c.due_at <= until)
        .order_by(task.c.due_at)
        .limit(COUNTED + 1)
    )
    by_index = force_index(few, task, "windlass_task_due").subquery()
    return connection.execute(select(func.count()).select_from(by_index)).scalar_one()


def running_since(connection: Connection, kind: str) -> tuple[int, int] | None:
    """When the run of a kind that goes on for longest was begun, and its row; None without one."""
    few = (
        select(task.c.started_at, task.c.id)
        .where(task.c.status == Status.RUNNING, task.c.kind == kind, task.c.due_at.is_not(None))
        .order_by(task.c.priority, task.c.due_at)
        .limit(RUNNING_READ)
    )
    by_index = force_index(few, task, "windlass_task_due").subquery()
    first = select(by_index).where(by_index.c.started_at.is_not(None))
    row = connection.execute(first.order_by(by_index.c.started_at).limit(1)).first()
    return None if row is None else (int(row.started_at), int(row.id))


def overloaded_since(connection: Connection, kind: str) -> tuple[int, int] | None:
    """The first overload of a row of a kind that has not ended since, and the row."""
    if not has_tables(connection, OVERLOAD_TABLES):
        return None
    is_open = task.c.status.in_((Status.WAITING, Status.RUNNING))
    row = connection.execute(
        select(overload.c.since, overload.c.task_id)
        .join(task, task.c.id == overload.c.task_id)
        .where(overload.c.kind == kind, is_open)
        .order_by(overload.c.since)
        .limit(1)
    ).first()
    return None if row is None else (int(row.since), int(row.task_id))


def retried_since(connection: Connection, kind: str) -> tuple[int, int] | None:
    """The first failure of a row of a kind that is to be tried again, and the row."""
    last = (
        select(failure.c.task_id, failure.c.failed_at)
        .where(failure.c.kind == kind)
        .order_by(failure.c.id.desc())
        .limit(FAILURES_READ)
    )
    first: dict[int, int] = {}
    for number, failed_at in connection.execute(last):
        first[number] = min(failed_at, first.get(number, failed_at))
    if not first:
        return None
    is_open = task.c.status.in_((Status.WAITING, Status.RUNNING)), task.c.attempt > 0
    query = select(task.c.id).where(task.c.id.in_(sorted(first)), *is_open)
    return min(((first[number], number) for number in connection.scalars(query)), default=None)

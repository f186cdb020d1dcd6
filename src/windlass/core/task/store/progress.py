"""The SQL of the progress of running tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, select, update

from windlass.database.dialect.base import Dialect
from windlass.database.schema import progress, task
from windlass.value.status import Status
from windlass.value.task import ProgressView, TaskView

MIGRATION = "0016"
AT_ONCE = 500

RENEW = (
    update(progress)
    .where(progress.c.task_id == bindparam("its_task"))
    .values({name: bindparam(name) for name in ("attempt", "done", "total", "note", "saved_at")})
)


@dataclass(frozen=True)
class ProgressRow:
    """How far one attempt of a task is."""

    task_id: int
    attempt: int
    done: int
    total: int | None
    note: str | None
    saved_at: int


def save(connection: Connection, dialect: Dialect, rows: Sequence[ProgressRow]) -> None:
    """Write how far tasks are, in the transaction that has the fence of their worker."""
    dialect.ensure_all(connection, progress, [vars(row) for row in rows])
    values = [{"its_task": row.task_id, **vars(row)} for row in rows]
    for each in values:
        del each["task_id"]
    connection.execute(RENEW, values)


def forget(connection: Connection, numbers: Collection[int]) -> None:
    """Delete the progress of tasks whose runs have ended."""
    connection.execute(delete(progress).where(progress.c.task_id.in_(numbers)))


def prune(connection: Connection, *, limit: int) -> int:
    """Delete the progress of tasks that are not running, such as those of lost workers."""
    runs = (task.c.id == progress.c.task_id) & (task.c.status == Status.RUNNING)
    query = select(progress.c.task_id).outerjoin(task, runs).where(task.c.id.is_(None))
    old = connection.scalars(query.limit(limit)).all()
    if old:
        forget(connection, old)
    return len(old)


def of(connection: Connection, tasks: Iterable[TaskView]) -> dict[int, ProgressView]:
    """The progress of those tasks that run, by their ids; only of their current attempts."""
    attempts = {each.id: each.attempt for each in tasks if each.status is Status.RUNNING}
    found: dict[int, ProgressView] = {}
    numbers = list(attempts)
    for begin in range(0, len(numbers), AT_ONCE):
        part = numbers[begin : begin + AT_ONCE]
        for row in connection.execute(select(progress).where(progress.c.task_id.in_(part))):
            if row.attempt == attempts[row.task_id]:
                found[row.task_id] = ProgressView(row.done, row.total, row.note, row.saved_at)
    return found


def told(found: Mapping[int, ProgressView], tasks: Iterable[TaskView]) -> list[TaskView]:
    """The tasks with their progress."""
    return [each.at(found[each.id]) if each.id in found else each for each in tasks]

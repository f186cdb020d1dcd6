"""The standing rows of crons."""

from __future__ import annotations

from sqlalchemy import Connection, text, update

from windlass.database.schema import task
from windlass.value.status import Status

STOPPED = "no longer declared"

KINDS_WAITING = text("""
with recursive waiting (kind) as (
    select (
        select t.kind from windlass_task t
        where t.status = 0 and t.due_at is not null order by t.kind limit 1
    )
    union all
    select (
        select t.kind from windlass_task t
        where t.status = 0 and t.kind > waiting.kind and t.due_at is not null
        order by t.kind limit 1
    ) from waiting where waiting.kind is not null
)
select kind from waiting where kind is not null
""")


def kinds_waiting(connection: Connection) -> list[str]:
    """The kinds that have waiting rows, found with one index lookup per kind."""
    return list(connection.scalars(KINDS_WAITING))


def stop(connection: Connection, kind: str, key: str, *, now: int, prune_at: int) -> bool:
    """Cancel the standing row of a cron that is no longer declared."""
    result = connection.execute(
        update(task)
        .where(task.c.kind == kind, task.c.task_key == key, task.c.status == Status.WAITING)
        .values(
            status=Status.CANCELLED, due_at=None, finished_at=now, prune_at=prune_at, remark=STOPPED
        )
    )
    return bool(result.rowcount)


def restart(connection: Connection, number: int, payload: str, *, due_at: int) -> bool:
    """Let a stopped cron wait for its next turn."""
    result = connection.execute(
        update(task)
        .where(task.c.id == number, task.c.due_at.is_(None))
        .values(
            status=Status.WAITING,
            due_at=due_at,
            attempt=0,
            lost=0,
            lost_in_a_row=0,
            prune_at=None,
            remark=None,
            batch=None,
            payload=payload,
        )
    )
    return bool(result.rowcount)


def reschedule(connection: Connection, number: int, payload: str, *, due_at: int) -> bool:
    """Give a waiting cron its new schedule; a running one gets it at the next discovery."""
    result = connection.execute(
        update(task)
        .where(task.c.id == number, task.c.status == Status.WAITING)
        .values(due_at=due_at, attempt=0, lost=0, lost_in_a_row=0, payload=payload)
    )
    return bool(result.rowcount)

"""The standing rows of crons."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, text, update

from windlass.database.schema import task
from windlass.value.status import Status

STOPPED = "no longer declared"
NEW = {"attempt": 0, "lost": 0, "lost_in_a_row": 0}

KINDS = """
with recursive waiting (kind) as (
    select (
        select t.kind from windlass_task t
        where t.status = {status} and t.due_at is {due} order by t.kind limit 1
    )
    union all
    select (
        select t.kind from windlass_task t
        where t.status = {status} and t.kind > waiting.kind and t.due_at is {due}
        order by t.kind limit 1
    ) from waiting where waiting.kind is not null
)
select kind from waiting where kind is not null
"""
KINDS_WAITING = text(KINDS.format(status=0, due="not null"))
KINDS_UNENDED = (
    KINDS_WAITING,
    text(KINDS.format(status=1, due="not null")),
    text(KINDS.format(status=4, due="null")),
    text(KINDS.format(status=5, due="not null")),
)


def kinds_waiting(connection: Connection) -> list[str]:
    """The kinds that have waiting rows, found with one index lookup per kind."""
    return list(connection.scalars(KINDS_WAITING))


def kinds_unended(connection: Connection) -> set[str]:
    """The kinds that have rows that wait, run, or are with an external system."""
    return {kind for query in KINDS_UNENDED for kind in connection.scalars(query)}


def stop(connection: Connection, kind: str, key: str, *, now: int, prune_at: int) -> bool:
    """Cancel the standing row of a cron that is no longer declared."""
    waits = task.c.kind == kind, task.c.task_key == key, task.c.status == Status.WAITING
    ended = {"status": Status.CANCELLED, "finished_at": now, "prune_at": prune_at}
    return _change(connection, waits, due_at=None, remark=STOPPED, **ended)


def restart(connection: Connection, number: int, payload: str, *, due_at: int) -> bool:
    """Let a stopped cron wait for its next turn."""
    stopped = task.c.id == number, task.c.due_at.is_(None)
    again = {"status": Status.WAITING, "prune_at": None, "remark": None, "batch": None}
    return _change(connection, stopped, due_at=due_at, payload=payload, **NEW, **again)


def reschedule(connection: Connection, number: int, payload: str, *, due_at: int) -> bool:
    """Give a waiting cron its new schedule; a running one gets it at the next discovery."""
    waits = task.c.id == number, task.c.status == Status.WAITING
    return _change(connection, waits, due_at=due_at, payload=payload, **NEW)


def _change(connection: Connection, where: tuple[ColumnElement[bool], ...], **values: Any) -> bool:
    return bool(connection.execute(update(task).where(*where).values(values)).rowcount)

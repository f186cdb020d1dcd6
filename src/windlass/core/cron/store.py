"""The standing rows of crons."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, update

from windlass.database.schema import task
from windlass.value.status import Status

STOPPED = "no longer declared"
NEW = {"attempt": 0, "lost": 0, "lost_in_a_row": 0}


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

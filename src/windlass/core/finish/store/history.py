"""What is remembered beside the rows: failures and statistics, bounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, delete, func, select

from windlass.database.schema import failure, stat
from windlass.value.task import FailureView

MINUTE = 60 * 1_000_000
FAILURES_PER_KIND = 1_000
KEEP_STATISTICS = 7 * 24 * 60


@dataclass(frozen=True)
class Work:
    """What was done of a kind in a stretch of time."""

    kind: str
    done: int
    failed: int
    retried: int
    milliseconds: int


def failures_of(connection: Connection, task_id: int, *, limit: int = 20) -> list[FailureView]:
    """The last errors of one task, newest first."""
    rows = connection.execute(
        _failures().where(failure.c.task_id == task_id).order_by(failure.c.id.desc()).limit(limit)
    )
    return [FailureView(*row) for row in rows]


def recent_failures(connection: Connection, *, limit: int = 20) -> list[FailureView]:
    """The last errors of all kinds, newest first."""
    rows = connection.execute(_failures().order_by(failure.c.id.desc()).limit(limit))
    return [FailureView(*row) for row in rows]


def work_since(connection: Connection, *, minute: int) -> list[Work]:
    """What was done of each kind since `minute`, counted in minutes since the epoch."""
    rows = connection.execute(
        select(
            stat.c.kind,
            func.sum(stat.c.done),
            func.sum(stat.c.failed),
            func.sum(stat.c.retried),
            func.sum(stat.c.milliseconds),
        )
        .where(stat.c.minute >= minute)
        .group_by(stat.c.kind)
    )
    return [Work(row[0], *(int(value) for value in row[1:])) for row in rows]


def work_of(connection: Connection, kind: str, *, minute: int) -> Work | None:
    """What was done of one kind since `minute`; None if nothing was."""
    found = minutes_of(connection, kind, since=minute).values()
    if not found:
        return None
    counts = ("done", "failed", "retried", "milliseconds")
    return Work(kind, *(sum(getattr(work, name) for work in found) for name in counts))


def minutes_of(connection: Connection, kind: str, *, since: int) -> dict[int, Work]:
    """What was done of one kind in each minute since `since`, in which something was."""
    rows = connection.execute(
        select(
            stat.c.minute,
            func.sum(stat.c.done),
            func.sum(stat.c.failed),
            func.sum(stat.c.retried),
            func.sum(stat.c.milliseconds),
        )
        .where(stat.c.minute >= since, stat.c.kind == kind)
        .group_by(stat.c.minute)
    )
    return {int(row[0]): Work(kind, *(int(value) for value in row[1:])) for row in rows}


def minutes(connection: Connection, *, since: int) -> dict[int, Work]:
    """What was done of all kinds in each minute since `since`, in which something was."""
    rows = connection.execute(
        select(
            stat.c.minute,
            func.sum(stat.c.done),
            func.sum(stat.c.failed),
            func.sum(stat.c.retried),
            func.sum(stat.c.milliseconds),
        )
        .where(stat.c.minute >= since)
        .group_by(stat.c.minute)
    )
    return {int(row[0]): Work("", *(int(value) for value in row[1:])) for row in rows}


def prune(connection: Connection, *, now: int) -> int:
    """Delete old failures and statistics; how many rows."""
    pruned = 0
    for kind in connection.scalars(select(failure.c.kind).distinct()).all():
        oldest_kept = connection.scalar(
            select(failure.c.id)
            .where(failure.c.kind == kind)
            .order_by(failure.c.id.desc())
            .offset(FAILURES_PER_KIND)
            .limit(1)
        )
        if oldest_kept is not None:
            old = delete(failure).where(failure.c.kind == kind, failure.c.id <= oldest_kept)
            pruned += connection.execute(old).rowcount
    old = delete(stat).where(stat.c.minute < now // MINUTE - KEEP_STATISTICS)
    return pruned + connection.execute(old).rowcount


def _failures() -> Select[Any]:
    return select(
        failure.c.id,
        failure.c.task_id,
        failure.c.kind,
        failure.c.attempt,
        failure.c.failed_at,
        failure.c.error,
        failure.c.trace,
    )

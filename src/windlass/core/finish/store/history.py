"""Failures and statistics of ended tasks, kept for a limited time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, delete, func, select

from windlass.database.schema import failure, stat
from windlass.value.task import FailureView

MINUTE = 60 * 1_000_000
FAILURES_PER_KIND = 1_000
KEEP_STATISTICS = 7 * 24 * 60

FAILURES = select(
    failure.c.id,
    failure.c.task_id,
    failure.c.kind,
    failure.c.attempt,
    failure.c.failed_at,
    failure.c.error,
    failure.c.trace,
).order_by(failure.c.id.desc())


@dataclass(frozen=True)
class Work:
    """The runs of a kind in a period of time, by outcome."""

    kind: str
    done: int
    failed: int
    retried: int
    milliseconds: int


def failures_of(connection: Connection, task_id: int, *, limit: int = 20) -> list[FailureView]:
    """The last errors of one task, newest first."""
    query = FAILURES.where(failure.c.task_id == task_id).limit(limit)
    return [FailureView(*row) for row in connection.execute(query)]


def recent_failures(connection: Connection, *, limit: int = 20) -> list[FailureView]:
    """The last errors of all kinds, newest first."""
    return [FailureView(*row) for row in connection.execute(FAILURES.limit(limit))]


def work_since(connection: Connection, *, minute: int) -> list[Work]:
    """The work on each kind since `minute`, counted in minutes since the epoch."""
    found = _sums_by(connection, stat.c.kind, stat.c.minute >= minute)
    return [Work(kind, *sums) for kind, sums in found]


def work_of(connection: Connection, kind: str, *, minute: int) -> Work | None:
    """The work on one kind since `minute`; None if there was none."""
    found = _sums_by(connection, stat.c.kind, stat.c.minute >= minute, stat.c.kind == kind)
    return next((Work(kind, *sums) for _kind, sums in found), None)


def minutes_of(connection: Connection, kind: str, *, since: int) -> dict[int, Work]:
    """The work on one kind in each minute since `since`, without minutes that had none."""
    found = _sums_by(connection, stat.c.minute, stat.c.minute >= since, stat.c.kind == kind)
    return {minute: Work(kind, *sums) for minute, sums in found}


def minutes(connection: Connection, *, since: int) -> dict[int, Work]:
    """The work on all kinds in each minute since `since`, without minutes that had none."""
    found = _sums_by(connection, stat.c.minute, stat.c.minute >= since)
    return {minute: Work("", *sums) for minute, sums in found}


def prune(connection: Connection, *, now: int) -> int:
    """Delete old failures and statistics; returns how many rows."""
    pruned = 0
    for kind in connection.scalars(select(failure.c.kind).distinct()).all():
        newest_old = connection.scalar(
            select(failure.c.id)
            .where(failure.c.kind == kind)
            .order_by(failure.c.id.desc())
            .offset(FAILURES_PER_KIND)
            .limit(1)
        )
        if newest_old is not None:
            old = delete(failure).where(failure.c.kind == kind, failure.c.id <= newest_old)
            pruned += connection.execute(old).rowcount
    old = delete(stat).where(stat.c.minute < now // MINUTE - KEEP_STATISTICS)
    return pruned + connection.execute(old).rowcount


def _sums_by(
    connection: Connection, column: Column[Any], *where: ColumnElement[bool]
) -> list[tuple[Any, list[int]]]:
    counts = (stat.c.done, stat.c.failed, stat.c.retried, stat.c.milliseconds)
    query = select(column, *map(func.sum, counts)).where(*where).group_by(column)
    return [(key, [int(value) for value in sums]) for key, *sums in connection.execute(query)]

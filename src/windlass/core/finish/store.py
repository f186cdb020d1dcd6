"""What a finish writes: outcomes, failures and statistics; and how they are read later."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Table,
    delete,
    func,
    insert,
    select,
    update,
)

from windlass.core.alert.model import Trouble
from windlass.core.alert.store import raise_alert
from windlass.database.database import has_tables
from windlass.database.dialect.base import Dialect
from windlass.database.dialect.by_id import delete_by_id
from windlass.database.schema import failure, overload, run_log, stat, task
from windlass.value.outcome import Change, Visits
from windlass.value.period import GOES
from windlass.value.status import Status
from windlass.value.task import FailureView, LogLine, RunLogView


@dataclass(frozen=True)
class FailureRow:
    """An error to store if its outcome is accepted."""

    id: int
    task_id: int
    kind: str
    attempt: int
    worker: int
    failed_at: int
    error: str
    trace: str


@dataclass(frozen=True)
class LogRow:
    """What a run logged, to store if its outcome is accepted; `lines` is JSON."""

    id: int
    task_id: int
    kind: str
    attempt: int
    worker: int
    ended_at: int
    dropped: int
    lines: str


@dataclass(frozen=True)
class PoisonAlert:
    """An alert to raise if its outcome is accepted."""

    number: int
    task_id: int
    kind: str
    text: str
    now: int

    @property
    def problem(self) -> Trouble:
        return Trouble("poison", self.kind, self.text, task_id=self.task_id)


@dataclass
class OverloadRow:
    """A row whose run met an overload."""

    task_id: int
    kind: str


@dataclass
class Group:
    """Outcomes that one worker writes in one transaction, of rows all read or all claimed."""

    worker: int
    now: int
    is_read: bool = False
    removals: dict[int, int] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    visits: list[Visits] = field(default_factory=list)
    failures: list[FailureRow] = field(default_factory=list)
    logs: list[LogRow] = field(default_factory=list)
    overloads: list[OverloadRow] = field(default_factory=list)
    alerts: list[PoisonAlert] = field(default_factory=list)

    @property
    def count(self) -> int:
        visits = sum(len(visits.rows) for visits in self.visits)
        return len(self.removals) + len(self.changes) + visits


def apply(connection: Connection, dialect: Dialect, group: Group) -> set[int]:
    """Write outcomes with their failures and alerts; returns the ids of the accepted ones.

    Call it in a transaction that has checked that the worker is alive. A second call changes
    nothing.
    """
    accepted: set[int] = set()
    if group.removals:
        accepted |= dialect.remove(connection, group.removals, is_read=group.is_read, now=group.now)
    changed: dict[int, int | None] = {}
    for visits in group.visits:
        changed |= dialect.visit(connection, visits, worker=group.worker, is_read=group.is_read)
    if group.changes:
        changed |= dialect.change(
            connection, group.changes, worker=group.worker, is_read=group.is_read
        )
    gone = [number for number, prune_at in changed.items() if prune_at == GOES]
    if gone:
        delete_by_id(connection, task, gone)
    accepted |= changed.keys()
    _write_errors(connection, group, accepted)
    overloads = [row for row in group.overloads if row.task_id in accepted]
    if overloads and has_tables(connection, OVERLOAD_TABLES):
        _note_overloads(connection, dialect, overloads, now=group.now)
    return accepted


def locked_by_others(connection: Connection, dialect: Dialect, ids: set[int]) -> set[int]:
    """The rows that another transaction has locked now."""
    free = dialect.free(connection, ids)
    if free == ids:
        return set()
    is_open = task.c.status.in_((Status.WAITING, Status.RUNNING))
    return set(connection.scalars(select(task.c.id).where(task.c.id.in_(ids - free), is_open)))


def _write_errors(connection: Connection, group: Group, accepted: set[int]) -> None:
    failures = [vars(row) for row in group.failures if row.task_id in accepted]
    if failures:
        connection.execute(insert(failure), failures)
    logs = [vars(row) for row in group.logs if row.task_id in accepted]
    if logs and has_tables(connection, LOG_TABLES):
        connection.execute(insert(run_log), logs)
    for alert in group.alerts:
        if alert.task_id in accepted:
            raise_alert(connection, alert.number, alert.problem, now=alert.now)


def _note_overloads(
    connection: Connection, dialect: Dialect, rows: Sequence[OverloadRow], *, now: int
) -> None:
    new = [{**vars(row), "since": now, "last_at": now, "times": 0} for row in rows]
    dialect.ensure_all(connection, overload, sorted(new, key=lambda row: row["task_id"]))
    connection.execute(
        update(overload)
        .where(overload.c.task_id.in_([row.task_id for row in rows]))
        .values(last_at=now, times=overload.c.times + 1)
    )


MINUTE = 60 * 1_000_000
# The migration that has the table of overloads, and how long an overload is remembered.
OVERLOAD_TABLES = "0010"
KEEP_OVERLOADS = 24 * 60 * MINUTE
FAILURES_PER_KIND = 1_000
# The migration that has the table of logs.
LOG_TABLES = "0006"
LOGS_PER_KIND = 1_000
KEEP_LOGS = 7 * 24 * 60 * MINUTE
LOOKED_AT = 200
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

LOGS = select(
    run_log.c.id,
    run_log.c.attempt,
    run_log.c.worker,
    run_log.c.ended_at,
    run_log.c.dropped,
    run_log.c.lines,
).order_by(run_log.c.id.desc())


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


def logs_of(connection: Connection, task_id: int, *, limit: int) -> list[RunLogView]:
    """What the last runs of one task logged, newest first."""
    if not has_tables(connection, LOG_TABLES):
        return []
    query = LOGS.where(run_log.c.task_id == task_id).limit(limit)
    return [
        RunLogView(*row[:-1], lines=msgspec.json.decode(row.lines, type=list[LogLine]))
        for row in connection.execute(query)
    ]


def recent_failures(connection: Connection, *, limit: int = 20) -> list[FailureView]:
    """The last errors of all kinds, newest first."""
    return [FailureView(*row) for row in connection.execute(FAILURES.limit(limit))]


def kinds_failing_as(connection: Connection, error: str, *, since: int) -> set[str]:
    """The kinds among the last failures since then whose error is of that type."""
    last = (
        select(failure.c.kind, failure.c.failed_at, failure.c.error)
        .order_by(failure.c.id.desc())
        .limit(LOOKED_AT)
    )
    return {
        kind
        for kind, failed_at, text in connection.execute(last)
        if failed_at >= since and text.startswith(f"{error}:")
    }


def overloaded_since(connection: Connection, kinds: Collection[str]) -> dict[str, int]:
    """The kinds with a row that an overload still keeps from ending, and since when."""
    if not kinds or not has_tables(connection, OVERLOAD_TABLES):
        return {}
    is_open = task.c.status.in_((Status.WAITING, Status.RUNNING))
    rows = connection.execute(
        select(overload.c.kind, func.min(overload.c.since))
        .join(task, task.c.id == overload.c.task_id)
        .where(overload.c.kind.in_(sorted(kinds)), is_open)
        .group_by(overload.c.kind)
    )
    return {kind: int(since) for kind, since in rows}


def work_since(connection: Connection, *, minute: int) -> list[Work]:
    """The work on each kind since `minute`, counted in minutes since the epoch."""
    found = _sums_by(connection, stat.c.kind, stat.c.minute >= minute)
    return [Work(kind, *sums) for kind, sums in found]


def work_between(connection: Connection, *, since: int, until: int) -> dict[str, Work]:
    """The work on each kind in the minutes from `since` up to, not including, `until`."""
    found = _sums_by(connection, stat.c.kind, stat.c.minute >= since, stat.c.minute < until)
    return {kind: Work(kind, *sums) for kind, sums in found}


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


def prune_history(connection: Connection, *, now: int) -> int:
    """Delete old failures, logs and statistics; returns how many rows."""
    pruned = _prune_each_kind(connection, failure, most=FAILURES_PER_KIND)
    if has_tables(connection, LOG_TABLES):
        pruned += _prune_each_kind(connection, run_log, most=LOGS_PER_KIND)
        old = delete(run_log).where(run_log.c.ended_at < now - KEEP_LOGS)
        pruned += connection.execute(old).rowcount
    if has_tables(connection, OVERLOAD_TABLES):
        connection.execute(delete(overload).where(overload.c.last_at < now - KEEP_OVERLOADS))
    old = delete(stat).where(stat.c.minute < now // MINUTE - KEEP_STATISTICS)
    return pruned + connection.execute(old).rowcount


def _prune_each_kind(connection: Connection, table: Table, *, most: int) -> int:
    """Keep the newest rows of each kind."""
    pruned = 0
    for kind in connection.scalars(select(table.c.kind).distinct()).all():
        newest_old = connection.scalar(
            select(table.c.id)
            .where(table.c.kind == kind)
            .order_by(table.c.id.desc())
            .offset(most)
            .limit(1)
        )
        if newest_old is not None:
            old = delete(table).where(table.c.kind == kind, table.c.id <= newest_old)
            pruned += connection.execute(old).rowcount
    return pruned


def _sums_by(
    connection: Connection, column: Column[Any], *where: ColumnElement[bool]
) -> list[tuple[Any, list[int]]]:
    counts = (stat.c.done, stat.c.failed, stat.c.retried, stat.c.milliseconds)
    query = select(column, *map(func.sum, counts)).where(*where).group_by(column)
    return [(key, [int(value) for value in sums]) for key, *sums in connection.execute(query)]

"""Writes outcomes. A row whose state has changed since it was taken refuses its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, insert, select

from windlass.core.alert.store import write_alert
from windlass.database.dialect.base import Dialect
from windlass.database.schema import failure, task
from windlass.value.outcome import Change, Visits
from windlass.value.period import GOES
from windlass.value.status import Status


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
class PoisonAlert:
    """An alert to raise if its outcome is accepted."""

    number: int
    task_id: int
    kind: str
    text: str
    now: int


@dataclass
class Group:
    """Outcomes that one worker writes in one transaction, of rows all read or all claimed."""

    worker: int
    is_read: bool = False
    removals: dict[int, int] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    visits: list[Visits] = field(default_factory=list)
    failures: list[FailureRow] = field(default_factory=list)
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
        accepted |= dialect.remove(connection, group.removals, is_read=group.is_read)
    changed: dict[int, int | None] = {}
    for visits in group.visits:
        changed |= dialect.visit(connection, visits, worker=group.worker, is_read=group.is_read)
    if group.changes:
        changed |= dialect.change(
            connection, group.changes, worker=group.worker, is_read=group.is_read
        )
    gone = [number for number, prune_at in changed.items() if prune_at == GOES]
    if gone:
        connection.execute(delete(task).where(task.c.id.in_(gone)))
    accepted |= changed.keys()
    _write_errors(connection, group, accepted)
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
    for alert in group.alerts:
        if alert.task_id in accepted:
            write_alert(connection, what="poison", **vars(alert))

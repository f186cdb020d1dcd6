"""Finishing: many outcomes in one transaction, each only if its row is still as it was taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, insert, select

from windlass.database.database import Database
from windlass.database.dialect.base import Dialect
from windlass.database.schema import alert, failure, task
from windlass.external import store as external
from windlass.flow.model.graph import How
from windlass.flow.store import slot
from windlass.flow.store.slot import After
from windlass.value.outcome import Change, Visits
from windlass.value.period import GOES
from windlass.value.status import Status


@dataclass(frozen=True)
class FailureRow:
    """An error to remember, if the outcome that it belongs to is accepted."""

    id: int
    task_id: int
    kind: str
    attempt: int
    worker: int
    failed_at: int
    error: str
    trace: str


@dataclass(frozen=True)
class AlertRow:
    """Something a person should know, if the outcome that it belongs to is accepted."""

    id: int
    what: str
    kind: str | None
    task_id: int | None
    raised_at: int
    text: str


@dataclass
class Batch:
    """What one worker wants to write down in one transaction, of rows it read or of claims."""

    worker: int
    is_read: bool = False
    now: int = 0
    removals: dict[int, int] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    visits: list[Visits] = field(default_factory=list)
    failures: list[FailureRow] = field(default_factory=list)
    alerts: list[AlertRow] = field(default_factory=list)
    # Of the rows that are nodes and end: their run, and how they end.
    nodes: dict[int, tuple[int, How]] = field(default_factory=dict)
    # Of the rows that are nodes and go on, or become nested flows: their run.
    going: dict[int, int] = field(default_factory=dict)
    # The runs of all rows that are nodes.
    runs: set[int] = field(default_factory=set)

    @property
    def count(self) -> int:
        """How many outcomes there are."""
        visits = sum(len(visits.rows) for visits in self.visits)
        return len(self.removals) + len(self.changes) + visits


def finish(
    database: Database,
    batch: Batch,
    note: Callable[[Connection, set[int]], None],
    *,
    on_accepted: Callable[[Connection], None] | None = None,
    on_filled: Callable[[Connection, After], None] | None = None,
    tries: int = 1,
) -> set[int] | None:
    """Write `batch`; the ids of the outcomes that were accepted, None if the worker is left.

    `note` writes beside them what follows from those that were accepted. `on_accepted` runs in the
    same transaction if all was accepted, and undoes everything by raising. `on_filled` is told
    there what the end of nodes has brought about. Repeating a batch changes nothing. Raises a
    driver's error when somebody else holds one of the rows for long: `held_by_others` tells which.
    """

    is_patient = on_accepted is not None

    def begin(connection: Connection) -> Mapping[int, int] | None:
        # The rows of runs before those of their nodes, as everyone does who locks both.
        if batch.runs:
            return database.dialect.alive_with(
                connection, batch.worker, batch.runs, patient=is_patient
            )
        is_alive = database.dialect.alive(connection, batch.worker, patient=is_patient)
        return slot.NOTHING if is_alive else None

    def work(connection: Connection) -> set[int] | None:
        before = begin(connection)
        if before is None:
            return None
        accepted = apply(connection, database.dialect, batch)
        note(connection, accepted)
        if on_accepted is not None and len(accepted) == batch.count:
            on_accepted(connection)
        if len(before) < len(batch.runs):
            over = {node for node, run in batch.going.items() if run not in before} & accepted
            slot.cancel_open(connection, over, now=batch.now)
            external.stop(connection, over, now=batch.now)
        if batch.nodes:
            after = fill(connection, database.dialect, batch, accepted, before=before)
            if on_filled is not None:
                on_filled(connection, after)
        return accepted

    return database.write(work, tries=tries, patient=is_patient)


def fill(
    connection: Connection,
    dialect: Dialect,
    batch: Batch,
    accepted: set[int],
    *,
    before: Mapping[int, int],
) -> After:
    """Have those go on that waited for the nodes among the accepted outcomes.

    `before` is how many nodes were left of their runs, which are locked.
    """
    ended = {number: batch.nodes[number] for number in accepted if number in batch.nodes}
    if not ended:
        return After()
    return slot.after_end(
        connection, dialect, ended, before=before, worker=batch.worker, now=batch.now
    )


def held_by_others(database: Database, ids: set[int]) -> set[int]:
    """Those of the rows that somebody else has locked at this moment."""

    def work(connection: Connection) -> set[int]:
        free = database.dialect.free(connection, ids)
        held = task.c.status.in_((Status.WAITING, Status.RUNNING))
        rows = select(task.c.id).where(task.c.id.in_(ids - free), held)
        return set(connection.scalars(rows)) if ids - free else set()

    return database.write(work, tries=2)


def apply(connection: Connection, dialect: Dialect, batch: Batch) -> set[int]:
    """Write the outcomes whose rows are as they were taken, and what is to be remembered of them.

    Call it in a transaction that knows the worker to be alive.
    """
    accepted: set[int] = set()
    if batch.removals:
        accepted |= dialect.remove(connection, batch.removals, is_read=batch.is_read)
    changed: dict[int, int | None] = {}
    for visits in batch.visits:
        changed |= dialect.visit(connection, visits, worker=batch.worker, is_read=batch.is_read)
    if batch.changes:
        changed |= dialect.change(
            connection, batch.changes, worker=batch.worker, is_read=batch.is_read
        )
    gone = [number for number, prune_at in changed.items() if prune_at == GOES]
    if gone:
        connection.execute(delete(task).where(task.c.id.in_(gone)))
    accepted |= changed.keys()
    _remember(connection, batch, accepted)
    return accepted


def _remember(connection: Connection, batch: Batch, accepted: set[int]) -> None:
    failures = [vars(row) for row in batch.failures if row.task_id in accepted]
    if failures:
        connection.execute(insert(failure), failures)
    alerts = [vars(row) for row in batch.alerts if row.task_id in accepted]
    if alerts:
        connection.execute(insert(alert), alerts)

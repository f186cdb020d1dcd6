"""What external systems execute: their handles, which of them are to be asked, how they ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select, update

from windlass.model.outcome import Change
from windlass.model.status import Status
from windlass.model.task import Claimed
from windlass.store.claim import PICKED
from windlass.store.dialect.base import Dialect, Stamp, stamped
from windlass.store.schema import external, task


@dataclass(frozen=True)
class ExternalRow:
    """A task that another system executes."""

    task: Claimed
    status: Status
    handle: str | None
    secret: str
    submission: int
    submitted_at: int | None
    polls: int
    told: str | None


def prepare(
    connection: Connection, dialect: Dialect, number: int, *, kind: str, secret: str
) -> tuple[str, int]:
    """Make sure that a task has a secret before it is submitted; the secret and the submission."""
    dialect.ensure(connection, external, task_id=number, kind=kind, secret=secret)
    row = connection.execute(
        select(external.c.secret, external.c.submission).where(external.c.task_id == number)
    ).one()
    return row.secret, row.submission


def record(connection: Connection, number: int, *, handle: str, now: int) -> None:
    """Write down the handle. If the end was told before, the task is due at once."""
    connection.execute(
        update(external)
        .where(external.c.task_id == number)
        .values(handle=handle, submitted_at=now, polls=0)
    )
    told = connection.scalar(select(external.c.told).where(external.c.task_id == number))
    if told is not None:
        connection.execute(update(task).where(task.c.id == number).values(due_at=now))


def due(
    connection: Connection,
    kind: str,
    *,
    now: int,
    buckets: Sequence[range],
    worker: int,
    limit: int,
) -> list[ExternalRow]:
    """The tasks of a kind that are to be asked for by now, in these buckets."""
    ours = [task.c.bucket.between(run.start, run.stop - 1) for run in buckets]
    found: list[ExternalRow] = []
    # One priority after the other: only so the index tells which are due.
    for priority in _priorities(connection, kind) if ours else ():
        query = (
            _rows()
            .where(_away(kind), task.c.priority == priority, task.c.due_at <= now)
            .where(or_(*ours))
            .order_by(task.c.due_at)
            .limit(limit - len(found))
        )
        found += [_row(row, worker) for row in connection.execute(query)]
        if len(found) >= limit:
            break
    return found


def _priorities(connection: Connection, kind: str) -> Iterator[int]:
    """The priorities that tasks of a kind have, the most urgent first, each by one look."""
    query = select(func.max(task.c.priority)).where(_away(kind))
    found = connection.scalar(query)
    while found is not None:
        yield found
        found = connection.scalar(query.where(task.c.priority < found))


def _away(kind: str) -> ColumnElement[bool]:
    return and_(task.c.status == Status.EXTERNAL, task.c.kind == kind, task.c.due_at.is_not(None))


def find(
    connection: Connection, handle: str | int, *, kind: str | None = None
) -> list[ExternalRow]:
    """The tasks that have a handle, or the one of an id."""
    column = external.c.task_id if isinstance(handle, int) else external.c.handle
    query = _rows().where(column == handle)
    if kind is not None:
        query = query.where(external.c.kind == kind)
    return [_row(row, 0) for row in connection.execute(query.limit(2))]


def lock(connection: Connection, number: int) -> ExternalRow | None:
    """One task, which nobody else ends until the transaction does."""
    connection.execute(select(task.c.id).where(task.c.id == number).with_for_update())
    row = connection.execute(_rows().where(task.c.id == number)).first()
    return None if row is None else _row(row, 0)


def put_off(connection: Connection, rows: Iterable[ExternalRow], *, due_at: int) -> None:
    """Ask for these later; they were asked for once more."""
    ids = [row.task.id for row in rows]
    is_asked = task.c.id.in_(ids), task.c.status == Status.EXTERNAL
    connection.execute(update(task).where(*is_asked).values(due_at=due_at))
    connection.execute(
        update(external).where(external.c.task_id.in_(ids)).values(polls=external.c.polls + 1)
    )


def end(connection: Connection, changes: Sequence[Change]) -> set[int]:
    """Write how tasks ended that are still at the other system; which those were."""
    ended: set[int] = set()
    for change in sorted(changes, key=lambda each: each.id):
        values: dict[str, Any] = {
            "status": change.status,
            "due_at": change.due_at,
            "attempt": change.attempt,
            "finished_at": change.finished_at,
            "prune_at": change.prune_at,
            "result": change.result,
            "remark": change.remark,
        }
        is_there = task.c.id == change.id, task.c.status == Status.EXTERNAL
        if connection.execute(update(task).where(*is_there).values(**values)).rowcount:
            ended.add(change.id)
    return ended


def submit_again(connection: Connection, ids: Collection[int]) -> None:
    """These have failed over there: the next submission is another one."""
    connection.execute(
        update(external)
        .where(external.c.task_id.in_(ids))
        .values(submission=external.c.submission + 1, handle=None, told=None, polls=0)
    )


def tell(connection: Connection, number: int, told: str) -> None:
    """Note how a task ended whose handle is not written down yet."""
    connection.execute(update(external).where(external.c.task_id == number).values(told=told))


def prune(connection: Connection, *, limit: int) -> None:
    """Forget up to `limit` of those whose tasks are gone."""
    is_there = select(task.c.id).where(task.c.id == external.c.task_id).exists()
    gone = connection.scalars(select(external.c.task_id).where(~is_there).limit(limit)).all()
    if gone:
        connection.execute(delete(external).where(external.c.task_id.in_(gone)))


def handles(connection: Connection, ids: Collection[int]) -> list[tuple[str, str]]:
    """The kind and the handle of tasks that were submitted."""
    rows = connection.execute(
        select(external.c.kind, external.c.handle).where(
            external.c.task_id.in_(ids), external.c.handle.is_not(None)
        )
    )
    return [(kind, handle) for kind, handle in rows]


def _rows() -> Any:
    return select(
        *PICKED,
        task.c.status,
        external.c.handle,
        external.c.secret,
        external.c.submission,
        external.c.submitted_at,
        external.c.polls,
        external.c.told,
    ).join_from(task, external, external.c.task_id == task.c.id)


def _row(row: Sequence[Any], worker: int) -> ExternalRow:
    picked, (status, *rest) = row[: len(PICKED)], row[len(PICKED) :]
    due_at = picked[4] or 0
    stamp = Stamp(None, worker, due_at, due_at)
    claimed = stamped((*picked[:4], due_at, *picked[5:]), stamp, attempt=0)
    return ExternalRow(claimed, Status(status), *rest)

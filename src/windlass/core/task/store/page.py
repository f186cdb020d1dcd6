"""Finding tasks among millions: a page at a time, and never more than so many rows looked at.

Rows come newest first, in the order of their ids. Where an index has just what is wanted, it is
used. Where none has, rows are walked through by their ids; a page that has looked at enough of them
ends early, and says where to go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    and_,
    literal,
    select,
    text,
)

from windlass.core.task.store.task import VIEW, view_of
from windlass.database.dialect.base import Dialect
from windlass.database.dialect.choice import force_index
from windlass.database.scan import scan
from windlass.database.schema import task
from windlass.value.status import FINAL, Status
from windlass.value.task import TaskFilter, TaskView

LOOKED_AT = 10_000
# So many are few: all of them are fetched and put in order.
FEW = 2_000
FETCHED_AT_ONCE = 500
# Nothing in these states has a time at which it is due.
UNDUE = (*FINAL, Status.BLOCKED)

# In the order of the index, or a planner may walk the table for the first of them.
DUE = (task.c.kind, task.c.priority, task.c.due_at)

# A list shows neither payload nor result: they may be large.
BRIEF = (*VIEW[:-2], literal("null").label("payload"), literal(None).label("result"))

NEXT_KIND = """
select t.kind from windlass_task t where {where} and t.kind > :after order by t.kind limit 1
"""


@dataclass(frozen=True)
class TasksBelow:
    """Tasks, and the id below which to go on; None at the end."""

    tasks: list[TaskView]
    below: int | None
    looked_at: int


def page(
    connection: Connection, dialect: Dialect, query: TaskFilter, *, below: int | None, limit: int
) -> TasksBelow:
    """Tasks that match and whose id is less than `below`, newest first."""
    if query.key is not None:
        return _by_key(connection, dialect, query)
    status = query.status
    if status in UNDUE and (query.kind or not query.has_age):
        return _undue(connection, query, status, below=below, limit=limit)
    few = _few(connection, query)
    if few is not None:
        return _of_few(connection, query, few, below=below, limit=limit)
    every = select(task.c.id, task.c.kind, task.c.status, task.c.created_at)
    return _walk(connection, query, every.order_by(task.c.id.desc()), below=below, limit=limit)


def _by_key(connection: Connection, dialect: Dialect, query: TaskFilter) -> TasksBelow:
    """Those that have a key: at most one of each kind."""
    kinds = [query.kind] if query.kind else _kinds(connection, dialect.in_key_index)
    rows = connection.execute(
        select(*BRIEF)
        .where(task.c.kind.in_(kinds), task.c.task_key == query.key, _matches(query, task))
        .order_by(task.c.id.desc())
    )
    found = [view_of(row) for row in rows]
    return TasksBelow(found, None, len(found))


def _undue(
    connection: Connection, query: TaskFilter, status: Status, *, below: int | None, limit: int
) -> TasksBelow:
    if query.kind is not None:
        one = undue_of(status, query.kind)
        return _walk(connection, query, one, below=below, limit=limit)
    numbers: list[int] = []
    for kind in kinds_undue(connection, status):
        numbers += connection.scalars(_below(undue_of(status, kind), below).limit(limit))
    newest = sorted(numbers, reverse=True)[:limit]
    found = _fetch(connection, newest, query)
    return TasksBelow(found, newest[-1] if len(newest) == limit else None, len(numbers))


def _kinds(connection: Connection, where: str) -> list[str]:
    """The kinds of such rows, each found by a step in an index."""
    step, after = text(NEXT_KIND.format(where=where)), ""
    found: list[str] = []
    while (kind := connection.scalar(step, {"after": after})) is not None:
        found.append(kind)
        after = kind
    return found


def kinds_undue(connection: Connection, status: Status) -> list[str]:
    """The kinds of rows in such a state that are not due."""
    return _kinds(connection, f"t.status = {int(status)} and t.due_at is null")


def undue_of(status: Status, kind: str, *more: ColumnElement[Any]) -> Select[Any]:
    """The rows of a kind in such a state that are not due, as the index of those has them.

    By its name twice: where a planner knows that it is one kind, it may take the order of the ids
    from the primary key instead, and walk through everything else.
    """
    query = (
        select(task.c.id, task.c.kind, task.c.status, task.c.created_at, *more)
        .where(task.c.status == status, task.c.kind.between(kind, kind))
        .where(task.c.due_at.is_(None))
        .order_by(task.c.kind.desc(), task.c.id.desc())
    )
    return force_index(query, task, "windlass_task_undue")


def _few(connection: Connection, query: TaskFilter) -> list[int] | None:
    """The ids of all rows in that state, if the indexes have not too many of them."""
    if query.status not in (Status.WAITING, Status.RUNNING, Status.EXTERNAL):
        return None
    some = select(task.c.id).where(task.c.status == query.status, task.c.due_at.is_not(None))
    if query.kind is not None:
        some = some.where(task.c.kind == query.kind)
    found = list(connection.scalars(some.order_by(*DUE).limit(FEW + 1)))
    if query.status is Status.RUNNING:
        found += _undue_runs(connection, query)
    return None if len(found) > FEW else sorted(found, reverse=True)


def _undue_runs(connection: Connection, query: TaskFilter) -> list[int]:
    """Flows that run: they wait for their nodes, and so have no time at which they are due."""
    kinds = [query.kind] if query.kind else kinds_undue(connection, Status.RUNNING)
    found: list[int] = []
    for kind in kinds:
        found += connection.scalars(undue_of(Status.RUNNING, kind).limit(FEW + 1 - len(found)))
    return found


def _of_few(
    connection: Connection, query: TaskFilter, few: list[int], *, below: int | None, limit: int
) -> TasksBelow:
    left = [number for number in few if below is None or number < below]
    found: list[TaskView] = []
    for begin in range(0, len(left), FETCHED_AT_ONCE):
        found += _fetch(connection, left[begin : begin + FETCHED_AT_ONCE], query)
        if len(found) >= limit:
            return TasksBelow(found[:limit], found[limit - 1].id, len(few))
    return TasksBelow(found, None, len(few))


def _walk(
    connection: Connection, query: TaskFilter, rows: Select[Any], *, below: int | None, limit: int
) -> TasksBelow:
    """Go through some of the rows, and take those that match."""
    looked = scan(
        connection,
        _below(rows, below).limit,
        ("id",),
        lambda window: _matches(query, window),
        limit=limit,
        most=LOOKED_AT,
    )
    found = _fetch(connection, [row.id for row in looked.rows], query)
    return TasksBelow(found, None if looked.last is None else looked.last.id, looked.looked_at)


def _below(rows: Select[Any], below: int | None) -> Select[Any]:
    return rows if below is None else rows.where(task.c.id < below)


def _fetch(connection: Connection, numbers: Sequence[int], query: TaskFilter) -> list[TaskView]:
    if not numbers:
        return []
    rows: Iterable[Sequence[Any]] = connection.execute(
        select(*BRIEF)
        .where(task.c.id.in_(numbers), _matches(query, task))
        .order_by(task.c.id.desc())
    )
    return [view_of(row) for row in rows]


def _matches(query: TaskFilter, rows: FromClause) -> ColumnElement[bool]:
    clauses: list[ColumnElement[bool]] = []
    if query.kind is not None:
        clauses.append(rows.c.kind == query.kind)
    if query.status is not None:
        clauses.append(rows.c.status == query.status)
    if query.created_after is not None:
        clauses.append(rows.c.created_at >= query.created_after)
    if query.created_before is not None:
        clauses.append(rows.c.created_at < query.created_before)
    return and_(True, *clauses)

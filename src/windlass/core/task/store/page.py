"""Finding tasks among millions, a page at a time, with a bound on the rows that are read.

Rows come newest first, by id. If an index fits the filter, it is used. Otherwise rows are scanned
by id; a page that has scanned enough rows ends early, and says where to continue.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    literal,
    select,
    text,
)

from windlass.core.task.store import lane
from windlass.core.task.store.task import VIEW, matching, view_of
from windlass.database.dialect.base import Dialect, force_index
from windlass.database.scan import scan
from windlass.database.schema import task
from windlass.value.status import FINAL, Status
from windlass.value.task import TaskFilter, TaskView

LOOKED_AT = 10_000
# Up to this many rows are all fetched and sorted.
FEW = 2_000
FETCHED_AT_ONCE = 500
# Rows in these states have no due time.
UNDUE = (*FINAL, Status.BLOCKED)

# In the order of the index; otherwise a planner may scan the table.
DUE = (task.c.kind, task.c.priority, task.c.due_at)

# A list shows neither payload nor result: they may be large.
BRIEF = (*VIEW[:-2], literal("null").label("payload"), literal(None).label("result"))

NEXT_KIND = """
select t.kind from windlass_task t where {where} and t.kind > :after order by t.kind limit 1
"""


@dataclass(frozen=True)
class TasksBelow:
    """Tasks, and the id below which to continue; None at the end."""

    tasks: list[TaskView]
    below: int | None
    looked_at: int


def page(
    connection: Connection, dialect: Dialect, query: TaskFilter, *, below: int | None, limit: int
) -> TasksBelow:
    """Tasks that match, with an id less than `below`, newest first."""
    if query.key is not None:
        return _by_key(connection, dialect, query)
    status = query.status
    if status in UNDUE and (query.kind or not query.has_age):
        return _undue(connection, query, status, below=below, limit=limit)
    few = _few(connection, query)
    if few is not None:
        return _of_few(connection, query, few, below=below, limit=limit)
    every = select(task.c.id, task.c.kind, task.c.status, task.c.created_at)
    return _scan(connection, query, every.order_by(task.c.id.desc()), below=below, limit=limit)


def _by_key(connection: Connection, dialect: Dialect, query: TaskFilter) -> TasksBelow:
    kinds = [query.kind] if query.kind else _kinds(connection, dialect.in_key_index)
    rows = connection.execute(
        select(*lane.shown(connection, BRIEF))
        .where(task.c.kind.in_(kinds), matching(query))
        .order_by(task.c.id.desc())
    )
    found = [view_of(row) for row in rows]
    return TasksBelow(found, None, len(found))


def _undue(
    connection: Connection, query: TaskFilter, status: Status, *, below: int | None, limit: int
) -> TasksBelow:
    if query.kind is not None:
        one = undue_of(status, query.kind)
        return _scan(connection, query, one, below=below, limit=limit)
    numbers: list[int] = []
    for kind in kinds_undue(connection, status):
        numbers += connection.scalars(_below(undue_of(status, kind), below).limit(limit))
    newest = sorted(numbers, reverse=True)[:limit]
    found = _fetch(connection, newest, query)
    return TasksBelow(found, newest[-1] if len(newest) == limit else None, len(numbers))


def _kinds(connection: Connection, where: str) -> list[str]:
    """The kinds of such rows, each found by one step in an index."""
    step, after = text(NEXT_KIND.format(where=where)), ""
    found: list[str] = []
    while (kind := connection.scalar(step, {"after": after})) is not None:
        found.append(kind)
        after = kind
    return found


def kinds_undue(connection: Connection, status: Status) -> list[str]:
    """The kinds of rows in a status that have no due time."""
    return _kinds(connection, f"t.status = {int(status)} and t.due_at is null")


def undue_of(status: Status, kind: str, *more: ColumnElement[Any]) -> Select[Any]:
    """The rows of a kind in a status that have no due time, in the order of their index.

    `between` hides from the planner that it is one kind. Otherwise it may read the primary key in
    the order of ids, and scan all other rows.
    """
    query = (
        select(task.c.id, task.c.kind, task.c.status, task.c.created_at, *more)
        .where(task.c.status == status, task.c.kind.between(kind, kind))
        .where(task.c.due_at.is_(None))
        .order_by(task.c.kind.desc(), task.c.id.desc())
    )
    return force_index(query, task, "windlass_task_undue")


def _few(connection: Connection, query: TaskFilter) -> list[int] | None:
    """The ids of all rows in that status, newest first; None if there are too many."""
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
    """Running flows: they wait for their nodes and have no due time."""
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


def _scan(
    connection: Connection, query: TaskFilter, rows: Select[Any], *, below: int | None, limit: int
) -> TasksBelow:
    looked = scan(
        connection,
        _below(rows, below).limit,
        ("id",),
        lambda window: matching(query, window),
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
        select(*lane.shown(connection, BRIEF))
        .where(task.c.id.in_(numbers), matching(query))
        .order_by(task.c.id.desc())
    )
    return [view_of(row) for row in rows]

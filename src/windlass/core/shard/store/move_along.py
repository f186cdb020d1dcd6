"""What moves along with rows: the nodes of ended runs with their slots, and external handles.

Nobody looks at a copy of them until the row that they belong to has arrived.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, delete, select

from windlass.database.database import Database
from windlass.database.dialect.base import Dialect
from windlass.database.schema import external, slot, task

Values = dict[str, Any]

PAGE = 1_000


def runs_of(rows: Collection[Values]) -> list[int]:
    """Those of the rows that are runs."""
    return [row["id"] for row in rows if row["flow_id"] == row["id"]]


def put(
    connection: Connection,
    dialect: Dialect,
    source: Database,
    rows: Sequence[Values],
    ids: Mapping[int, int],
) -> None:
    """Copy what belongs to rows of `source`, a page at a time; `ids` are their ids here."""
    for table, page in _pages(source, rows):
        for row in page:
            if table is external:
                row["task_id"] = ids.get(row["task_id"], row["task_id"])
        if page:
            dialect.ensure_all(connection, table, page)


def drop(connection: Connection, rows: Collection[Values]) -> None:
    """Delete what belongs to rows, which are or will be deleted."""
    _forget(connection, [row["id"] for row in rows])
    for run in runs_of(rows):
        inside = select(task.c.id).where(task.c.flow_id == run, task.c.id != run)
        for part in _parts(list(connection.scalars(inside))):
            connection.execute(delete(slot).where(slot.c.dep_id.in_(part)))
            _forget(connection, part)
            connection.execute(delete(task).where(task.c.id.in_(part)))


def _forget(connection: Connection, ids: Sequence[int]) -> None:
    if ids:
        connection.execute(delete(external).where(external.c.task_id.in_(ids)))


def _pages(source: Database, rows: Sequence[Values]) -> Iterator[tuple[Table, list[Values]]]:
    yield external, _read(source, external, external.c.task_id, [row["id"] for row in rows])
    for run in runs_of(rows):
        last = 0
        while True:
            query = select(task).where(task.c.flow_id == run, task.c.id != run, task.c.id > last)
            nodes = _all(source, query.order_by(task.c.id).limit(PAGE))
            if not nodes:
                break
            ids = [row["id"] for row in nodes]
            yield task, nodes
            yield slot, _read(source, slot, slot.c.dep_id, ids)
            yield external, _read(source, external, external.c.task_id, ids)
            last = ids[-1]


def _read(source: Database, table: Table, column: Any, ids: Sequence[int]) -> list[Values]:
    return _all(source, select(table).where(column.in_(ids)))


def _all(source: Database, query: Any) -> list[Values]:
    return source.read(
        lambda connection: [dict(row) for row in connection.execute(query).mappings()]
    )


def _parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for begin in range(0, len(ids), PAGE):
        yield ids[begin : begin + PAGE]

"""What moves to another shard with a flow run that has ended: its nodes and their slots."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, select

from windlass.core.face import Copied, Read, Values
from windlass.database.schema import slot, task

PAGE = 1_000


def nodes(read: Read, rows: Sequence[Values]) -> Iterator[list[Values]]:
    """The nodes of the flow runs among `rows`, a page at a time."""
    for run in _runs(rows):
        last = 0
        while True:
            inside = task.c.flow_id == run, task.c.id != run, task.c.id > last
            page = _all(read, select(task).where(*inside).order_by(task.c.id).limit(PAGE))
            if not page:
                break
            yield page
            last = page[-1]["id"]


def inside(connection: Connection, rows: Collection[Values]) -> Iterator[Sequence[int]]:
    """The ids of those nodes, a page at a time."""
    for run in _runs(rows):
        found = select(task.c.id).where(task.c.flow_id == run, task.c.id != run)
        ids = list(connection.scalars(found))
        for begin in range(0, len(ids), PAGE):
            yield ids[begin : begin + PAGE]


def slots(read: Read, ids: Sequence[int], _new: Mapping[int, int]) -> Iterator[Copied]:
    """The slots that nodes fill."""
    yield Copied(slot, _all(read, select(slot).where(slot.c.dep_id.in_(ids))))


def drop(connection: Connection, ids: Sequence[int]) -> None:
    """Delete those slots."""
    connection.execute(delete(slot).where(slot.c.dep_id.in_(ids)))


def _runs(rows: Collection[Values]) -> list[int]:
    return [row["id"] for row in rows if row["flow_id"] == row["id"]]


def _all(read: Read, query: Any) -> list[Values]:
    found: list[Values] = read(
        lambda connection: [dict(row) for row in connection.execute(query).mappings()]
    )
    return found

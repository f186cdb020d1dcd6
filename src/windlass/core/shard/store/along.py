"""Rows of the faces that move together with task rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, delete

from windlass.core.face import Faces, Read, Values
from windlass.database.dialect.base import Dialect
from windlass.database.schema import task


def put(
    connection: Connection,
    dialect: Dialect,
    faces: Faces,
    *,
    read: Read,
    rows: Sequence[Values],
    ids: Mapping[int, int],
) -> None:
    """Copy what belongs to `rows` from another shard with `read`; `ids` maps to their ids here."""
    _put_page(connection, dialect, faces, read, [row["id"] for row in rows], ids)
    for along in faces.alongs:
        for page in along.nodes(read, rows) if along.nodes else ():
            dialect.ensure_all(connection, task, page)
            _put_page(connection, dialect, faces, read, [row["id"] for row in page], ids)


def drop(connection: Connection, faces: Faces, rows: Collection[Values]) -> None:
    """Delete what belongs to rows that are deleted in this transaction."""
    _drop_page(connection, faces, [row["id"] for row in rows])
    for along in faces.alongs:
        for page in along.inside(connection, rows) if along.inside else ():
            _drop_page(connection, faces, page)
            connection.execute(delete(task).where(task.c.id.in_(page)))


def added(
    connection: Connection, faces: Faces, rows: Sequence[Values], *, kinds: Collection[str]
) -> None:
    """Count rows that were written; `kinds` are the expendable kinds in the source."""
    _counted(connection, faces, rows, +1, kinds)


def removed(connection: Connection, faces: Faces, rows: Sequence[Values]) -> None:
    """Count rows that were deleted."""
    _counted(connection, faces, rows, -1, expendable(connection, faces))


def _counted(
    connection: Connection,
    faces: Faces,
    rows: Sequence[Values],
    sign: int,
    kinds: Collection[str],
) -> None:
    for along in faces.alongs:
        if along.counted and rows:
            along.counted(connection, rows, sign, kinds)


def expendable(connection: Connection, faces: Faces) -> set[str]:
    """The kinds that lose nothing when a copy cannot be written because the key is there."""
    found = [along.expendable(connection) for along in faces.alongs if along.expendable]
    return set().union(*found)


def _put_page(
    connection: Connection,
    dialect: Dialect,
    faces: Faces,
    read: Read,
    ids: Sequence[int],
    new: Mapping[int, int],
) -> None:
    for along in faces.alongs:
        for table, rows in along.copy(read, ids, new) if along.copy and ids else ():
            if rows:
                dialect.ensure_all(connection, table, rows)


def _drop_page(connection: Connection, faces: Faces, ids: Sequence[int]) -> None:
    for along in faces.alongs:
        if along.drop and ids:
            along.drop(connection, ids)

"""Looking for rows that no index has on their own: among the next so many, and no more.

The rows come in the order of an index, from where the last page ended. A page that has looked at
enough of them ends early, and says where to go on, so that it costs the same however few match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, FromClause, Row, Select, func, select

# Mostly many of them match, and the first few are enough.
FEW = 10

# The next so many rows, in order.
Rows = Callable[[int], Select[Any]]
Wanted = Callable[[FromClause], ColumnElement[bool]]


class Looked(NamedTuple):
    """Rows that match, at how many was looked, and the last of those; None if that were all."""

    rows: Sequence[Row[Any]]
    looked_at: int
    last: Row[Any] | None


def look(
    connection: Connection,
    rows: Rows,
    keys: Sequence[str],
    wanted: Wanted,
    *,
    limit: int,
    most: int,
    ascending: bool = False,
) -> Looked:
    """Up to `limit` of the next `most` rows that are wanted; they have the order of `keys`."""
    count = min(FEW * limit, most)
    found = _among(connection, rows(count), keys, wanted, limit, ascending)
    if len(found) < limit and count < most:
        count = most
        found = _among(connection, rows(count), keys, wanted, limit, ascending)
    if len(found) == limit:
        return Looked(found, count, found[-1])
    window = rows(count).subquery("looked_at")
    looked_at = connection.scalar(select(func.count()).select_from(window)) or 0
    if looked_at < count:
        return Looked(found, looked_at, None)
    backwards = _ordered(window, keys, not ascending)
    return Looked(found, looked_at, connection.execute(backwards.limit(1)).one())


def _among(
    connection: Connection,
    rows: Select[Any],
    keys: Sequence[str],
    wanted: Wanted,
    limit: int,
    ascending: bool,
) -> Sequence[Row[Any]]:
    window = rows.subquery("looked_at")
    query = _ordered(window, keys, ascending).where(wanted(window)).limit(limit)
    return connection.execute(query).all()


def _ordered(window: FromClause, keys: Sequence[str], ascending: bool) -> Select[Any]:
    columns = (window.c[key] for key in keys)
    return select(window).order_by(*(each if ascending else each.desc() for each in columns))

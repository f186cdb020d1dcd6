"""A bounded scan: finding rows that no index has on their own, among a limited number of others.

The rows come in the order of an index, from where the last page ended. A page that has scanned
enough of them ends early and says where to continue, so it costs the same however few match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, FromClause, Row, Select, func, select

# Mostly many rows match, and the first few are enough.
FEW = 10

# A query for the next rows, in order, at most as many as given.
Rows = Callable[[int], Select[Any]]
Wanted = Callable[[FromClause], ColumnElement[bool]]


class Scanned(NamedTuple):
    """Rows that match, how many were scanned, and the last of those; None if there are no more."""

    rows: Sequence[Row[Any]]
    looked_at: int
    last: Row[Any] | None


def scan(
    connection: Connection,
    rows: Rows,
    keys: Sequence[str],
    wanted: Wanted,
    *,
    limit: int,
    most: int,
    ascending: bool = False,
) -> Scanned:
    """Up to `limit` wanted rows among the next `most`; they have the order of `keys`."""
    count = min(FEW * limit, most)
    found = _among(connection, rows(count), keys, wanted, limit, ascending)
    if len(found) < limit and count < most:
        count = most
        found = _among(connection, rows(count), keys, wanted, limit, ascending)
    if len(found) == limit:
        return Scanned(found, count, found[-1])
    window = rows(count).subquery("scanned")
    scanned = connection.scalar(select(func.count()).select_from(window)) or 0
    if scanned < count:
        return Scanned(found, scanned, None)
    backwards = _ordered(window, keys, not ascending)
    return Scanned(found, scanned, connection.execute(backwards.limit(1)).one())


def _among(
    connection: Connection,
    rows: Select[Any],
    keys: Sequence[str],
    wanted: Wanted,
    limit: int,
    ascending: bool,
) -> Sequence[Row[Any]]:
    window = rows.subquery("scanned")
    query = _ordered(window, keys, ascending).where(wanted(window)).limit(limit)
    return connection.execute(query).all()


def _ordered(window: FromClause, keys: Sequence[str], ascending: bool) -> Select[Any]:
    columns = (window.c[key] for key in keys)
    return select(window).order_by(*(each if ascending else each.desc() for each in columns))

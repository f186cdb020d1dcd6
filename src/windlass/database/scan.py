"""A bounded scan: find matching rows without an index of their own, among a limited number of rows.

The rows come in the order of an index, from where the last page ended. A page that has scanned
enough rows ends early and says where to continue, so its cost does not depend on how many match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, FromClause, Row, Select, func, select

# Usually many rows match: scan this many times the limit first.
FEW = 10

# Makes a query for the next rows, in order, up to the given number.
Rows = Callable[[int], Select[Any]]
Wanted = Callable[[FromClause], ColumnElement[bool]]


class Scanned(NamedTuple):
    """Matching rows, how many rows were scanned, and the last of them; None at the end."""

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
    """Up to `limit` wanted rows among the next `most` rows, ordered by `keys`."""

    def among(count: int) -> Sequence[Row[Any]]:
        window = rows(count).subquery("scanned")
        query = _ordered(window, keys, ascending).where(wanted(window)).limit(limit)
        return connection.execute(query).all()

    count = min(FEW * limit, most)
    found = among(count)
    if len(found) < limit and count < most:
        count = most
        found = among(count)
    if len(found) == limit:
        return Scanned(found, count, found[-1])
    window = rows(count).subquery("scanned")
    scanned = connection.scalar(select(func.count()).select_from(window)) or 0
    if scanned < count:
        return Scanned(found, scanned, None)
    backwards = _ordered(window, keys, not ascending)
    return Scanned(found, scanned, connection.execute(backwards.limit(1)).one())


def _ordered(window: FromClause, keys: Sequence[str], ascending: bool) -> Select[Any]:
    columns = (window.c[key] for key in keys)
    return select(window).order_by(*(each if ascending else each.desc() for each in columns))

"""Reads the rows of a table in the order of its key, page by page.

The order is that of the index on the key columns, whatever their collation or type: only the
database compares keys. A page begins after a key, not after a number of rows, so the last page of
ten million rows costs as much as the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    column,
    func,
    literal_column,
    or_,
    select,
    table,
    tuple_,
)
from sqlalchemy.types import NullType

from windlass.errors import BadKey

Key = Any


class Keyset:
    """The queries for the pages of one table. A key of several columns is a tuple."""

    def __init__(
        self,
        name: str,
        schema: str | None,
        key: Sequence[str],
        *,
        columns: Sequence[str] | None,
        where: str | None,
        compares_rows: bool,
    ) -> None:
        self._columns: list[ColumnElement[Any]] = [column(each) for each in key]
        self._names = tuple(key)
        self._from = table(name, *(column(each) for each in key), schema=schema)
        self._shown: list[Any] = [literal_column("*")]
        if columns is not None:
            named = dict.fromkeys([*key, *columns])
            self._shown = [column(each) for each in named]
        # A literal, so that a colon in it does not begin a parameter.
        self._where: ColumnElement[Any] | None = None
        if where is not None:
            self._where = literal_column(f"({where})")
        self._compares_rows = compares_rows

    def read(
        self, connection: Connection, after: Key | None, upto: Key | None, limit: int
    ) -> list[tuple[Key, dict[str, Any]]]:
        """The next rows, each with its key."""
        query = self._between(self._shown, after, upto).limit(limit)
        found = connection.execute(query, self._values(after, upto))
        names = tuple(found.keys())
        # Of one column this is its value, of several a tuple.
        key_of = itemgetter(*(names.index(name) for name in self._names))
        return [(key_of(row), dict(zip(names, row, strict=True))) for row in found.fetchall()]

    def edge(
        self, connection: Connection, after: Key | None, upto: Key | None, count: int
    ) -> Key | None:
        """The key of the row `count` rows further, or of the last one; None if there is none."""
        keys = self._between(self._columns, after, upto).limit(count).subquery()
        last = select(*keys.c).order_by(*(each.desc() for each in keys.c)).limit(1)
        row = connection.execute(last, self._values(after, upto)).first()
        return None if row is None else self._key_of(row)

    def count(self, connection: Connection, after: Key | None, upto: Key | None) -> int:
        """How many rows there are between two keys."""
        query = self._limited(self._all(func.count()), after, upto)
        return int(connection.execute(query, self._values(after, upto)).scalar_one())

    def find(self, connection: Connection, key: Key) -> dict[str, Any] | None:
        """The row with that key."""
        query = self._all(*self._shown)
        for each, bound in zip(self._columns, self._binds("after"), strict=True):
            query = query.where(each == bound)
        found = connection.execute(query.limit(1), self._values(key, None)).mappings().first()
        return None if found is None else dict(found)

    def has_null(self, connection: Connection) -> bool:
        """Whether some row has no key."""
        null = or_(*(each.is_(None) for each in self._columns))
        query = self._all(*self._columns).where(null).limit(1)
        return connection.execute(query).first() is not None

    def duplicate(self, connection: Connection) -> Key | None:
        """A key that occurs more than once."""
        query = self._all(*self._columns).group_by(*self._columns)
        row = connection.execute(query.having(func.count() > 1).limit(1)).first()
        return None if row is None else self._key_of(row)

    def page(self, limit: int) -> Select[Any]:
        """The query of a first page, to be explained."""
        return self._between(self._shown, None, None).limit(limit)

    def _all(self, *columns: Any) -> Select[Any]:
        query = select(*columns).select_from(self._from)
        return query if self._where is None else query.where(self._where)

    def _between(self, columns: Sequence[Any], after: Key | None, upto: Key | None) -> Select[Any]:
        return self._limited(self._all(*columns), after, upto).order_by(*self._columns)

    def _limited(self, query: Select[Any], after: Key | None, upto: Key | None) -> Select[Any]:
        if after is not None:
            query = query.where(self._beyond("after"))
        elif upto is None:
            # Some databases sort nulls first.
            query = query.where(and_(*(each.is_not(None) for each in self._columns)))
        if upto is not None:
            query = query.where(self._up_to("upto"))
        return query

    def _beyond(self, name: str) -> ColumnElement[bool]:
        bounds = self._binds(name)
        if len(bounds) == 1:
            beyond: ColumnElement[bool] = self._columns[0] > bounds[0]
            return beyond
        if self._compares_rows:
            return tuple_(*self._columns) > tuple_(*bounds)
        # The first condition lets the database use the index; the second is exact.
        return and_(self._columns[0] >= bounds[0], self._greater(bounds))

    def _greater(self, bounds: Sequence[Any]) -> ColumnElement[bool]:
        cases = [
            and_(
                *(
                    each == bound
                    for each, bound in zip(self._columns[:place], bounds, strict=False)
                ),
                self._columns[place] > bounds[place],
            )
            for place in range(len(bounds))
        ]
        return or_(*cases)

    def _up_to(self, name: str) -> ColumnElement[bool]:
        bounds = self._binds(name)
        if len(bounds) == 1:
            up_to: ColumnElement[bool] = self._columns[0] <= bounds[0]
            return up_to
        if self._compares_rows:
            return tuple_(*self._columns) <= tuple_(*bounds)
        return and_(self._columns[0] <= bounds[0], ~self._greater(bounds))

    def _binds(self, name: str) -> list[Any]:
        # A value without a type takes the type of the column, so its index is used.
        return [bindparam(f"{name}_{place}", type_=NullType()) for place in range(len(self._names))]

    def _values(self, after: Key | None, upto: Key | None) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, key in (("after", after), ("upto", upto)):
            if key is not None:
                parts = self._parts(key)
                values |= {f"{name}_{place}": part for place, part in enumerate(parts)}
        return values

    def _key_of(self, values: Sequence[Any]) -> Key:
        return values[0] if len(self._names) == 1 else tuple(values)

    def _parts(self, key: Key) -> Sequence[Any]:
        is_several = isinstance(key, tuple | list)
        if len(self._names) == 1 and not is_several:
            return (key,)
        if len(self._names) > 1 and is_several and len(key) == len(self._names):
            return tuple(key)
        names = ", ".join(self._names)
        raise BadKey(
            f"{self._from.name}: {key!r} is not a key of it; give "
            + (f"a value of {names}" if len(self._names) == 1 else f"a tuple of {names}")
        )

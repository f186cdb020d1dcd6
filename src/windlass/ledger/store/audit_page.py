"""Reads the ledger's tables for an audit: in the order of their keys, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import Table, TextClause, text

from windlass.database.dialect.base import Dialect, Executor, LongText
from windlass.ledger.store.dialect import keys, kinds, row_lists

ROWS = 2_000
FEW_ROWS = 100
# A page of documents has about this many characters: one of ten thousand lines has a million.
PAGE_CHARACTERS = 2_000_000

Row = Sequence[Any]


class TableReader:
    """Reads tables; complains of values of the wrong type, and reads them as 0 or as text."""

    def __init__(
        self, executor: Executor, dialect: Dialect, complain: Callable[[str], None]
    ) -> None:
        self._executor = executor
        self._lists = row_lists(dialect)
        self._complain = complain

    def read(
        self, table: Table, columns: Sequence[str] = (), *, where: str = "true", **asked: object
    ) -> Iterator[Row]:
        """All rows `where` that holds, in the order of their keys; all columns or some."""
        names = columns or tuple(kinds(table))
        documents = [at for at, name in enumerate(names) if kinds(table)[name] is LongText]
        first = self._query(table, names, where)
        others = self._query(table, names, f"{where} and {_after(keys(table))}")
        limit, after = FEW_ROWS if documents else ROWS, dict[str, object]()
        while True:
            query = others if after else first
            found = self._executor.execute(query, {"limit": limit, **asked, **after}).fetchall()
            yield from self._checked(table, names, found)
            if len(found) < limit:
                return
            last = dict(zip(names, found[-1], strict=True))
            after = {f"after_{number}": last[key] for number, key in enumerate(keys(table))}
            if documents:
                limit = _fitting(found, documents)

    def _query(self, table: Table, names: Sequence[str], where: str) -> TextClause:
        return text(
            f"select {self._lists.select(table, names)} from {table.name} as t where {where} "
            f"order by {', '.join(keys(table))} limit :limit"
        )

    def _checked(self, table: Table, names: Sequence[str], rows: Sequence[Row]) -> Iterator[Row]:
        numbers = [at for at, name in enumerate(names) if kinds(table)[name] is int]
        for row in rows:
            types = [type(value) for value in row]
            if bytes not in types and all(types[at] is int for at in numbers):
                yield row
            else:
                yield self._fixed(table, dict(zip(names, row, strict=True)))

    def _fixed(self, table: Table, row: dict[str, Any]) -> Row:
        which = f"{table.name} {', '.join(repr(row[key]) for key in keys(table))}"
        for name, value in row.items():
            may_be_null = table.columns[name].nullable
            if kinds(table)[name] is int:
                if type(value) is not int and not (may_be_null and value is None):
                    row[name] = 0
                    self._complain(f"{which}: {name} {value!r} is not a whole number")
            elif isinstance(value, bytes):
                row[name] = value.decode(errors="backslashreplace")
                self._complain(f"{which}: {name} is not text")
        return tuple(row.values())


class Front:
    """Rows that are taken from the front, by the values of their first columns."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = rows
        self.head = next(rows, None)

    def take(self, *key: object) -> Iterator[Row]:
        """The next rows, as long as they begin with this key."""
        while self.head is not None and tuple(self.head[: len(key)]) == key:
            row, self.head = self.head, next(self._rows, None)
            yield row


def _after(key: Sequence[str]) -> str:
    # Not a comparison of rows: MySQL and MariaDB would read from the beginning each time.
    first, *rest = key
    if not rest:
        return f"{first} > :after_0"
    later = f"{rest[0]} > :after_1"
    if len(rest) == 2:
        later = f"({later} or ({rest[0]} = :after_1 and {rest[1]} > :after_2))"
    return f"{first} >= :after_0 and ({first} > :after_0 or {later})"


def _fitting(rows: Sequence[Row], documents: Sequence[int]) -> int:
    """How many rows like these are a page."""
    characters = sum(len(str(row[at] or "")) for row in rows for at in documents)
    return max(1, min(ROWS, len(rows) * 4, PAGE_CHARACTERS * len(rows) // (characters or 1)))

"""The ledger's tables as an audit reads them: in the order of their keys, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import TextClause, text

from windlass.database.dialect.base import Dialect, Executor
from windlass.ledger.store.dialect import lists_of

ROWS = 2_000
FEW_ROWS = 100
# A page of answers is about as long as this: one of ten thousand lines is a megabyte or more.
PAGE_CHARACTERS = 2_000_000

Row = Sequence[Any]


class Shelf(NamedTuple):
    """What is read of a table, and how; `gaps` are numbers that may be null."""

    table: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()


class Pages:
    """Reads tables; a number or a text that is none is told, and read as something that is."""

    def __init__(
        self, executor: Executor, dialect: Dialect, complain: Callable[[str], None]
    ) -> None:
        self._executor = executor
        self._from_json = lists_of(dialect).from_json
        self._complain = complain

    def walk(self, shelf: Shelf, where: str = "true", **asked: object) -> Iterator[Row]:
        """All rows, in the order of their keys; only those `where` that is so."""
        keys = [shelf.columns.index(key) for key in shelf.keys]
        numbers = [shelf.columns.index(name) for name in (*shelf.numbers, *shelf.gaps)]
        documents = [shelf.columns.index(name) for name in shelf.documents]
        first, others = (
            self._query(shelf, where),
            self._query(shelf, f"{where} and {_after(shelf)}"),
        )
        limit, after = FEW_ROWS if documents else ROWS, dict[str, object]()
        while True:
            query = others if after else first
            found = self._executor.execute(query, {"limit": limit, **asked, **after}).fetchall()
            for row in found:
                yield self._checked(shelf, row, numbers)
            if len(found) < limit:
                return
            after = {f"after_{number}": found[-1][key] for number, key in enumerate(keys)}
            if documents:
                limit = _fitting(found, documents)

    def _query(self, shelf: Shelf, where: str) -> TextClause:
        columns = ", ".join(
            self._from_json.format(name) if name in shelf.documents else name
            for name in shelf.columns
        )
        return text(
            f"select {columns} from windlass_{shelf.table} where {where} "
            f"order by {', '.join(shelf.keys)} limit :limit"
        )

    def _checked(self, shelf: Shelf, row: Row, numbers: Sequence[int]) -> Row:
        kinds = [type(value) for value in row]
        if bytes not in kinds and all(kinds[place] is int for place in numbers):
            return row
        fixed = list(row)
        named = ", ".join(repr(row[shelf.columns.index(key)]) for key in shelf.keys)
        for place, kind in enumerate(kinds):
            if kind is bytes:
                fixed[place] = row[place].decode(errors="backslashreplace")
                self._complain(
                    f"windlass_{shelf.table} {named}: {shelf.columns[place]} is not text"
                )
        for place in numbers:
            may_be_null = shelf.columns[place] in shelf.gaps
            if kinds[place] is not int and not (may_be_null and row[place] is None):
                fixed[place] = 0
                self._complain(
                    f"windlass_{shelf.table} {named}: {shelf.columns[place]} {row[place]!r} "
                    "is not a whole number"
                )
        return fixed


class Walk:
    """Rows that are taken from the front, by what their first columns are."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = rows
        self.head = next(rows, None)

    def take(self, *key: object) -> Iterator[Row]:
        """The next rows, as long as they begin with this key."""
        while self.head is not None and tuple(self.head[: len(key)]) == key:
            row, self.head = self.head, next(self._rows, None)
            yield row


def _after(shelf: Shelf) -> str:
    # Not a comparison of rows: MySQL and MariaDB would walk from the beginning each time.
    first, *rest = shelf.keys
    if not rest:
        return f"{first} > :after_0"
    later = f"{rest[0]} > :after_1"
    if len(rest) == 2:
        later = f"({later} or ({rest[0]} = :after_1 and {rest[1]} > :after_2))"
    return f"{first} >= :after_0 and ({first} > :after_0 or {later})"


def _fitting(rows: Sequence[Row], documents: Sequence[int]) -> int:
    """How many rows like these are a page."""
    characters = sum(len(str(row[place] or "")) for row in rows for place in documents)
    return max(1, min(ROWS, len(rows) * 4, PAGE_CHARACTERS * len(rows) // (characters or 1)))

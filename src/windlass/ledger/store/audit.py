"""Reads all tables of the ledger, and checks that every rule holds for every row.

The tables are read in the order of their keys, a page at a time, so that a deduction meets its
lines and returns.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Table, TextClause, text

from windlass.database import schema
from windlass.database.dialect.base import Dialect, Executor
from windlass.database.dialect.statement import LongText
from windlass.ledger.model.audit import (
    SHOWN_OF_EACH,
    Balance,
    DeductionCheck,
    EntryKey,
    EntryMismatches,
    EntrySink,
    EntrySums,
    check_receipt,
    exchanged_out,
    received,
)
from windlass.ledger.model.book import DeductionRow, LineRow, ReceiptRow, ReturnRow
from windlass.ledger.model.ledger import LAPSE, Movement, movement_of
from windlass.ledger.store.dialect import RowLists, keys, kinds, row_lists
from windlass.value.status import Status

ROWS = 2_000
FEW_ROWS = 100
# A page of documents has about this many characters: one of ten thousand lines has a million.
PAGE_CHARACTERS = 2_000_000

Row = Sequence[Any]
LIVE = (int(Status.WAITING), int(Status.RUNNING))
DRAINING = text("select 1 from windlass_shard where draining <> 0")
WITHOUT_STOCK = text("""
select e.sku from windlass_stock_entry as e left join windlass_stock as s on s.sku = e.sku
where s.sku is null limit 1000
""")


def problems(executor: Executor, dialect: Dialect) -> list[str]:
    """A line for each thing that is wrong; if many are of one sort, the first of them."""
    lists = row_lists(dialect)
    with lists.read_by_index(executor):
        return _Audit(executor, lists).problems()


class _Audit:
    def __init__(self, executor: Executor, lists: RowLists) -> None:
        self._executor = executor
        self._found = _Findings()
        self._tables = _TableReader(executor, lists, lambda said: self._found.add("number", [said]))
        self._lapses = _Lapses(executor, self._tables)

    def problems(self) -> list[str]:
        sums = EntrySums()
        self._read(sums)
        found = self._found
        self._find_unknown_skus()
        if sums.is_broken:
            # The second reading would report again what the first one did.
            self._found = _Findings()
            rest = EntryMismatches(sums)
            self._read(rest)
            found.add("stock", rest.of_stock())
            found.add("entry", rest.of_entries())
        return found.lines()

    def _read(self, sink: EntrySink) -> None:
        self._read_deductions(sink)
        read = self._tables.read
        for row in read(schema.stock_receipt):
            self._check_receipt(ReceiptRow(*row), sink)
        for _, sku, quantity, movement, reference, return_id, at in read(schema.stock_entry):
            sink.enter(EntryKey(movement, reference, return_id, sku), quantity, at)
        for sku, *kept in read(schema.stock):
            sink.keep(sku, Balance(*kept))

    def _read_deductions(self, sink: EntrySink) -> None:
        read = self._tables.read
        made = _Front(read(schema.deduction)), _Front(read(schema.deduction_line))
        back = _Front(read(schema.stock_return)), _Front(read(schema.return_line))
        fronts = [*made, *back]
        deductions, lines, *returns = fronts
        # The order of code points is that of the bytes, by which the tables are sorted.
        while ids := [front.head[0] for front in fronts if front.head is not None]:
            id_ = min(ids)
            found = next((DeductionRow(*row) for row in deductions.take(id_)), None)
            own = {line.sku: line for line in (LineRow(*row) for row in lines.take(id_))}
            check = DeductionCheck(id_, found, own)
            self._check_returns(check, id_, returns, sink)
            if found is not None:
                for sku, quantity in check.deducted().items():
                    key = EntryKey(Movement.DEDUCT, id_, None, sku)
                    sink.expect(key, -quantity, found.created_at)
            self._found.add("deduction", check.end(self._lapses.has))

    def _check_returns(
        self, check: DeductionCheck, of: str, fronts: list[_Front], sink: EntrySink
    ) -> None:
        returns, lines = fronts
        while ids := [f.head[1] for f in fronts if f.head is not None and f.head[0] == of]:
            id_ = min(ids)
            found = next((ReturnRow(*row) for row in returns.take(of, id_)), None)
            own = {sku: quantity for _, _, sku, quantity in lines.take(of, id_)}
            self._found.add("return", check.add(id_, found, own))
            if found is not None:
                self._expect_return(found, own, sink)

    def _expect_return(self, row: ReturnRow, lines: Mapping[str, int], sink: EntrySink) -> None:
        of, id_ = row.deduction_id, row.return_id
        out = exchanged_out(row) if row.refusal is None else {}
        movement = Movement.EXCHANGE if out else movement_of(id_)
        for sku, quantity in lines.items():
            sink.expect(EntryKey(movement, of, id_, sku), quantity, row.created_at)
        for sku, quantity in out.items():
            sink.expect(EntryKey(movement, of, id_, sku), -quantity, row.created_at)

    def _check_receipt(self, row: ReceiptRow, sink: EntrySink) -> None:
        self._found.add("receipt", check_receipt(row))
        lines = received(row) if row.refusal is None else None
        for sku, quantity in (lines or {}).items():
            sink.expect(EntryKey(row.movement, row.id, None, sku), quantity, row.created_at)

    def _find_unknown_skus(self) -> None:
        rows = self._executor.execute(WITHOUT_STOCK, {}).fetchall()
        found = dict.fromkeys(sku for (sku,) in rows)
        self._found.add(
            "sku", (f"stock {sku!r}: there are entries of it, but no stock" for sku in found)
        )


class _Findings:
    """What was found, by sort: of each sort the first few."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}

    def add(self, sort: str, said: Iterable[str]) -> None:
        for line in said:
            known = self._found.setdefault(sort, [])
            if len(known) < SHOWN_OF_EACH:
                known.append(line)
            elif len(known) == SHOWN_OF_EACH:
                known.append(f"... and more of this sort, after: {known[-1]}")

    def lines(self) -> list[str]:
        return [line for known in self._found.values() for line in known]


class _Lapses:
    """Which holds have a task that ends them. Eight bytes for each such task."""

    def __init__(self, executor: Executor, tables: _TableReader) -> None:
        self._executor = executor
        self._tables = tables
        self._known: array[int] | None = None
        self._are_elsewhere = False

    def has(self, deduction: str) -> bool:
        if self._known is None:
            # The tasks of a database that is drained are moved to others.
            self._are_elsewhere = bool(self._executor.execute(DRAINING, {}).fetchall())
            self._known = array("q", sorted(self._read()))
        place = bisect_left(self._known, hash(deduction))
        found = place < len(self._known) and self._known[place] == hash(deduction)
        return found or self._are_elsewhere

    def _read(self) -> Iterator[int]:
        where = f"kind = :kind and status in {LIVE}"
        rows = self._tables.read(schema.task, ("id", "payload"), where=where, kind=LAPSE)
        for _, payload in rows:
            yield hash(msgspec.json.decode(payload)["deduction"])


@dataclass(frozen=True)
class _TableReader:
    """Reads tables; complains of values of the wrong type, and reads them as 0 or as text."""

    executor: Executor
    lists: RowLists
    complain: Callable[[str], None]

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
            found = self.executor.execute(query, {"limit": limit, **asked, **after}).fetchall()
            yield from self._checked(table, names, found)
            if len(found) < limit:
                return
            last = dict(zip(names, found[-1], strict=True))
            after = {f"after_{number}": last[key] for number, key in enumerate(keys(table))}
            if documents:
                limit = _fitting(found, documents)

    def _query(self, table: Table, names: Sequence[str], where: str) -> TextClause:
        return text(
            f"select {self.lists.select(table, names)} from {table.name} as t where {where} "
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
                    self.complain(f"{which}: {name} {value!r} is not a whole number")
            elif isinstance(value, bytes):
                row[name] = value.decode(errors="backslashreplace")
                self.complain(f"{which}: {name} is not text")
        return tuple(row.values())


class _Front:
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

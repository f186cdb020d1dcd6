"""Reads all tables of the ledger, and checks that every rule holds for every row.

The tables are read in the order of their keys, so that a deduction meets its lines and returns.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

import msgspec
from sqlalchemy import text

from windlass.database.dialect.base import Dialect, Executor
from windlass.database.schema import (
    deduction,
    deduction_line,
    return_line,
    stock,
    stock_entry,
    stock_receipt,
    stock_return,
    task,
)
from windlass.ledger.model.audit import (
    LAPSE,
    SHOWN_OF_EACH,
    Balance,
    DeductionCheck,
    check_receipt,
    received,
)
from windlass.ledger.model.audit_entry import EntryKey, EntryMismatches, EntrySink, EntrySums
from windlass.ledger.model.book import DeductionRow, LineRow, ReceiptRow, ReturnRow
from windlass.ledger.model.ledger import Movement, movement_of
from windlass.ledger.store.audit_page import Front, TableReader
from windlass.ledger.store.dialect import row_lists
from windlass.value.status import Status

LIVE = (int(Status.WAITING), int(Status.RUNNING))
DRAINING = text("select 1 from windlass_shard where draining <> 0")
WITHOUT_STOCK = text("""
select e.sku from windlass_stock_entry as e left join windlass_stock as s on s.sku = e.sku
where s.sku is null limit 1000
""")


def problems(executor: Executor, dialect: Dialect) -> list[str]:
    """A line for each thing that is wrong; if many are of one sort, the first of them."""
    with row_lists(dialect).read_by_index(executor):
        return _Audit(executor, dialect).problems()


class _Audit:
    def __init__(self, executor: Executor, dialect: Dialect) -> None:
        self._executor = executor
        self._found = _Findings()
        self._tables = TableReader(
            executor, dialect, lambda said: self._found.add("number", [said])
        )
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
        for row in self._tables.read(stock_receipt):
            self._check_receipt(ReceiptRow(*row), sink)
        for _, sku, quantity, movement, reference, return_id, at in self._tables.read(stock_entry):
            sink.enter(EntryKey(movement, reference, return_id, sku), quantity, at)
        for sku, *kept in self._tables.read(stock):
            sink.keep(sku, Balance(*kept))

    def _read_deductions(self, sink: EntrySink) -> None:
        tables = (deduction, deduction_line, stock_return, return_line)
        fronts = [Front(self._tables.read(table)) for table in tables]
        deductions, lines, *returns = fronts
        # The order of code points is that of the bytes, by which the tables are sorted.
        while ids := [front.head[0] for front in fronts if front.head is not None]:
            id_ = min(ids)
            found = next((DeductionRow(*row) for row in deductions.take(id_)), None)
            own = [LineRow(*row) for row in lines.take(id_)]
            if found is not None:
                for line in own:
                    key = EntryKey(Movement.DEDUCT, id_, None, line.sku)
                    sink.expect(key, -line.quantity, found.created_at)
            check = DeductionCheck(id_, found, own)
            self._check_returns(check, id_, returns, sink)
            self._found.add("deduction", check.end(self._lapses.has))

    def _check_returns(
        self, check: DeductionCheck, of: str, fronts: list[Front], sink: EntrySink
    ) -> None:
        returns, lines = fronts
        while ids := [f.head[1] for f in fronts if f.head is not None and f.head[0] == of]:
            id_ = min(ids)
            found = next((ReturnRow(*row) for row in returns.take(of, id_)), None)
            own = {sku: quantity for _, _, sku, quantity in lines.take(of, id_)}
            self._found.add("return", check.add(id_, found, own))
            for sku, quantity in own.items():
                if found is not None:
                    key = EntryKey(movement_of(id_), of, id_, sku)
                    sink.expect(key, quantity, found.created_at)

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

    def __init__(self, executor: Executor, tables: TableReader) -> None:
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
        for _, payload in self._tables.read(task, ("id", "payload"), where=where, kind=LAPSE):
            yield hash(msgspec.json.decode(payload)["deduction"])

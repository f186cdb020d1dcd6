"""Checks that every rule of the ledger holds for every row, in memory of a fixed size.

All tables are read in the order of their keys, and a deduction is compared with its lines and
returns. Entries have another order, and sorting them would take much memory. So each row that must
have an entry adds a hash to the sum of its bucket, and each entry subtracts its own: a sum that is
not 0 means rows without entries or entries without rows. The rows of those buckets are read again
and reported. The balances of the SKUs are compared in the same way.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol
from zlib import crc32

import msgspec
from sqlalchemy import text

from windlass.clock import to_datetime
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
    COMES_BACK,
    COMES_IN,
    LAPSE,
    Balance,
    DeductionCheck,
    balance_of,
    check_receipt,
    check_stock,
    received,
)
from windlass.ledger.model.book import DeductionRow, LineRow, ReceiptRow, ReturnRow
from windlass.ledger.model.ledger import Movement, movement_of
from windlass.ledger.store.audit_page import Front, TableReader
from windlass.ledger.store.dialect import row_lists
from windlass.value.status import Status

SHOWN_OF_EACH = 20
BUCKETS = 1 << 14
# One more than is shown, to know whether there are more.
BUCKETS_READ = SHOWN_OF_EACH + 1

LIVE = (int(Status.WAITING), int(Status.RUNNING))
DRAINING = text("select 1 from windlass_shard where draining <> 0")
WITHOUT_STOCK = text("""
select e.sku from windlass_stock_entry as e left join windlass_stock as s on s.sku = e.sku
where s.sku is null limit 1000
""")


class EntryKey(NamedTuple):
    """What an entry is about: there is one for each line of each movement."""

    movement: str
    reference: str
    return_id: str | None
    sku: str


class Sink(Protocol):
    """Takes what must have an entry, the entries, and the stock."""

    def expect(self, key: EntryKey, quantity: int, at: int) -> None: ...

    def enter(self, key: EntryKey, quantity: int, at: int) -> None: ...

    def keep(self, sku: str, kept: Balance) -> None: ...


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
        sums = _Sums()
        self._read(sums)
        found = self._found
        self._find_unknown_skus()
        if sums.is_broken:
            # The second reading would report again what the first one did.
            self._found = _Findings()
            rest = _Rest(sums)
            self._read(rest)
            found.add("stock", rest.of_stock())
            found.add("entry", rest.of_entries())
        return found.lines()

    def _read(self, sink: Sink) -> None:
        self._read_deductions(sink)
        for row in self._tables.read(stock_receipt):
            self._check_receipt(ReceiptRow(*row), sink)
        for _, sku, quantity, movement, reference, return_id, at in self._tables.read(stock_entry):
            sink.enter(EntryKey(movement, reference, return_id, sku), quantity, at)
        for sku, *kept in self._tables.read(stock):
            sink.keep(sku, Balance(*kept))

    def _read_deductions(self, sink: Sink) -> None:
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
        self, check: DeductionCheck, of: str, fronts: list[Front], sink: Sink
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

    def _check_receipt(self, row: ReceiptRow, sink: Sink) -> None:
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


class _Sums:
    """Sums of hashes, by bucket; each is 0 if all that is added is taken away again."""

    def __init__(self) -> None:
        self.entries = [0] * BUCKETS
        self.stock = [0] * BUCKETS

    @property
    def is_broken(self) -> bool:
        return any(self.entries) or any(self.stock)

    def expect(self, key: EntryKey, quantity: int, at: int) -> None:
        self.entries[_bucket(key.reference)] += _hash(key, quantity, at)

    def enter(self, key: EntryKey, quantity: int, at: int) -> None:
        self.entries[_bucket(key.reference)] -= _hash(key, quantity, at)
        self.stock[_bucket(key.sku)] -= _weigh(key.sku, balance_of(key.movement, quantity))

    def keep(self, sku: str, kept: Balance) -> None:
        # One that is wrong by itself is to be read again, whatever its entries say.
        is_right = not any(check_stock(sku, kept, kept))
        self.stock[_bucket(sku)] += _weigh(sku, kept) if is_right else hash((sku, kept))


class _Rest:
    """The rows of buckets in which something is left."""

    def __init__(self, sums: _Sums) -> None:
        self._in_entries = _broken(sums.entries)
        self._in_stock = _broken(sums.stock)
        self._expected: dict[EntryKey, list[tuple[int, int]]] = defaultdict(list)
        self._entered: dict[EntryKey, list[tuple[int, int]]] = defaultdict(list)
        self._stock: dict[str, Balance] = {}
        self._sums: dict[str, Balance] = defaultdict(Balance)

    def expect(self, key: EntryKey, quantity: int, at: int) -> None:
        if _bucket(key.reference) in self._in_entries:
            self._expected[key].append((quantity, at))

    def enter(self, key: EntryKey, quantity: int, at: int) -> None:
        if _bucket(key.reference) in self._in_entries:
            self._entered[key].append((quantity, at))
        if _bucket(key.sku) in self._in_stock:
            more = zip(self._sums[key.sku], balance_of(key.movement, quantity), strict=True)
            self._sums[key.sku] = Balance(*(before + plus for before, plus in more))

    def keep(self, sku: str, kept: Balance) -> None:
        if _bucket(sku) in self._in_stock:
            self._stock[sku] = kept

    def of_stock(self) -> Iterator[str]:
        for sku, kept in self._stock.items():
            yield from check_stock(sku, kept, self._sums.get(sku, Balance()))

    def of_entries(self) -> Iterator[str]:
        keys = {*self._expected, *self._entered}
        for key in sorted(keys, key=lambda key: (key.reference, key.movement, *map(str, key))):
            expected, found = sorted(self._expected[key]), sorted(self._entered[key])
            if expected != found:
                yield _describe(key, expected, found)


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


def _describe(key: EntryKey, expected: list[tuple[int, int]], found: list[tuple[int, int]]) -> str:
    movement, reference, return_id, sku = key
    sign = -1 if movement == Movement.DEDUCT else 1
    wanted, entries = ([sign * quantity for quantity, _ in rows] for rows in (expected, found))
    if movement == Movement.DEDUCT:
        what, verb = f"deduction {reference!r}", "deducted"
    elif movement in COMES_IN:
        what, verb = f"{movement} {reference!r}", "came in"
    elif movement in COMES_BACK:
        what, verb = f"{movement} {return_id!r} of deduction {reference!r}", "came back"
    else:
        what, verb = f"unknown movement {movement!r} of {reference!r}", "moved"
    if wanted == entries:
        made, entered_ = (to_datetime(rows[0][1]).isoformat() for rows in (expected, found))
        return f"{what}, sku {sku!r}: made at {made}, but its entries say {entered_}"
    return f"{what}, sku {sku!r}: {_listed(wanted)} {verb}, but its entries say {_listed(entries)}"


def _listed(quantities: list[int]) -> str:
    return ", ".join(map(str, quantities[:5])) + ", ..." * (len(quantities) > 5) or "nothing"


def _bucket(name: str) -> int:
    return crc32(name.encode()) % BUCKETS


def _hash(key: EntryKey, quantity: int, at: int) -> int:
    # Python has the same hash for -1 and -2, but not for other numbers.
    return hash((key, 2 * quantity, at))


def _broken(sums: list[int]) -> set[int]:
    """The first buckets in which something is left."""
    return set([number for number, left in enumerate(sums) if left][:BUCKETS_READ])


def _weigh(sku: str, sums: Balance) -> int:
    return sum(hash((sku, place)) * value for place, value in enumerate(sums) if value)

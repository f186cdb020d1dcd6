"""Whether every rule of the ledger holds for every row, in memory that does not grow with it.

All tables are read in the order of their keys. What a deduction, its lines and its returns say of
each other is compared as they come by. Entries have another order, and to bring them into the same
would need as much room as they have themselves. So each row that must have an entry is added, as a
hash, to the sum of its bucket, and each entry is taken away again: what is left of a sum are rows
without entries or entries without rows. Those buckets are read again, and told by name. The sums
of the SKUs are compared alike.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol
from zlib import crc32

import msgspec
from sqlalchemy import text

from windlass.clock import to_datetime
from windlass.database.dialect.base import Dialect, Executor
from windlass.ledger.model.audit import (
    COMES_BACK,
    COMES_IN,
    LAPSE,
    MOVEMENT_OF,
    KeptDeduction,
    KeptLine,
    KeptReceipt,
    KeptReturn,
    KeptStock,
    Story,
    check_receipt,
    check_stock,
    entered,
    received,
)
from windlass.ledger.model.ledger import Movement
from windlass.ledger.store.audit_page import Pages, Shelf, Walk
from windlass.value.status import Status

SHOWN_OF_EACH = 20
BUCKETS = 1 << 14
# Each has something to tell: one more than is shown, so that it can be said that there is more.
LOOKED_INTO = SHOWN_OF_EACH + 1

SUMS = ("available", "received", "deducted", "returned")
ANSWER = ("body", "refusal")
STOCK = Shelf("stock", ("sku",), ("sku", *SUMS), numbers=SUMS)
RECEIPTS = Shelf(
    "stock_receipt",
    ("movement", "id"),
    ("movement", "id", *ANSWER, "created_at"),
    numbers=("created_at",),
    documents=ANSWER,
)
DEDUCTIONS = Shelf(
    "deduction",
    ("id",),
    ("id", "status", *ANSWER, "hold_until", "confirmed_at", "created_at"),
    numbers=("status", "created_at"),
    gaps=("hold_until", "confirmed_at"),
    documents=ANSWER,
)
LINES = Shelf(
    "deduction_line",
    ("deduction_id", "sku"),
    ("deduction_id", "sku", "quantity", "returned"),
    numbers=("quantity", "returned"),
)
RETURNS = Shelf(
    "stock_return",
    ("deduction_id", "return_id"),
    ("deduction_id", "return_id", *ANSWER, "created_at"),
    numbers=("created_at",),
    documents=ANSWER,
)
RETURN_LINES = Shelf(
    "return_line",
    ("deduction_id", "return_id", "sku"),
    ("deduction_id", "return_id", "sku", "quantity"),
    numbers=("quantity",),
)
ENTRIES = Shelf(
    "stock_entry",
    ("id",),
    ("id", "movement", "reference", "return_id", "sku", "quantity", "created_at"),
    numbers=("quantity", "created_at"),
)
TASKS = Shelf("task", ("id",), ("id", "payload"), documents=("payload",))
LIVE = (int(Status.WAITING), int(Status.RUNNING))
DRAINING = text("select 1 from windlass_shard where draining <> 0")
PLANNER = text("select current_setting('enable_seqscan'), current_setting('enable_sort')")
PLAN = text(
    "select set_config('enable_seqscan', :scan, true), set_config('enable_sort', :sort, true)"
)
WITHOUT_STOCK = text("""
select e.sku from windlass_stock_entry as e left join windlass_stock as s on s.sku = e.sku
where s.sku is null limit 1000
""")


class Key(NamedTuple):
    """What an entry is about: there is one for each line of each movement."""

    movement: str
    reference: str
    return_id: str | None
    sku: str


class Sink(Protocol):
    """Takes what must have an entry, the entries, and the stock."""

    def expect(self, key: Key, quantity: int, at: int) -> None: ...

    def enter(self, key: Key, quantity: int, at: int) -> None: ...

    def keep(self, sku: str, kept: KeptStock) -> None: ...


def of(dialect: Dialect) -> Callable[[Executor], list[str]]:
    """The audit of a database of `dialect`: a line for each thing that is wrong.

    Of many of one sort, the first.
    """

    def work(executor: Executor) -> list[str]:
        if dialect.name != "postgresql":
            return _Audit(executor, dialect).problems()
        # Without statistics it would read and sort the whole table for every page.
        (before,) = executor.execute(PLANNER, {}).fetchall()
        executor.execute(PLAN, {"scan": "off", "sort": "off"}).fetchall()
        found = _Audit(executor, dialect).problems()
        executor.execute(PLAN, {"scan": before[0], "sort": before[1]}).fetchall()
        return found

    return work


class _Audit:
    def __init__(self, executor: Executor, dialect: Dialect) -> None:
        self._executor = executor
        self._told = _Told()
        self._pages = Pages(executor, dialect, lambda said: self._told.add("number", [said]))
        self._lapses = _Lapses(executor, self._pages)

    def problems(self) -> list[str]:
        sums = _Sums()
        self._walk(sums)
        told = self._told
        self._tell_of_unknown_skus()
        if sums.is_broken:
            # What is wrong by itself is told already.
            self._told = _Told()
            rest = _Rest(sums)
            self._walk(rest)
            told.add("stock", rest.of_stock())
            told.add("entry", rest.of_entries())
        return told.lines()

    def _walk(self, sink: Sink) -> None:
        self._walk_deductions(sink)
        for row in self._pages.walk(RECEIPTS):
            self._see_receipt(KeptReceipt(*row), sink)
        for _, movement, reference, return_id, sku, quantity, at in self._pages.walk(ENTRIES):
            sink.enter(Key(movement, reference, return_id, sku), quantity, at)
        for sku, *kept in self._pages.walk(STOCK):
            sink.keep(sku, KeptStock(*kept))

    def _walk_deductions(self, sink: Sink) -> None:
        shelves = (DEDUCTIONS, LINES, RETURNS, RETURN_LINES)
        walks = [Walk(self._pages.walk(shelf)) for shelf in shelves]
        deductions, lines, *returns = walks
        # The order of code points is that of the bytes, by which the tables are sorted.
        while ids := [walk.head[0] for walk in walks if walk.head is not None]:
            id_ = min(ids)
            found = next((KeptDeduction(*row) for row in deductions.take(id_)), None)
            own = [KeptLine(*row[1:]) for row in lines.take(id_)]
            if found is not None:
                for line in own:
                    key = Key(Movement.DEDUCT, id_, None, line.sku)
                    sink.expect(key, -line.quantity, found.created_at)
            story = Story(id_, found, own)
            self._see_returns(story, id_, returns, sink)
            self._told.add("deduction", story.end(self._lapses.has))

    def _see_returns(self, story: Story, of: str, walks: list[Walk], sink: Sink) -> None:
        returns, lines = walks
        while ids := [w.head[1] for w in walks if w.head is not None and w.head[0] == of]:
            id_ = min(ids)
            found = next((KeptReturn(*row) for row in returns.take(of, id_)), None)
            own = {sku: quantity for _, _, sku, quantity in lines.take(of, id_)}
            self._told.add("return", story.add(id_, found, own))
            movement = MOVEMENT_OF.get(id_, Movement.RETURN)
            for sku, quantity in own.items():
                if found is not None:
                    sink.expect(Key(movement, of, id_, sku), quantity, found.created_at)

    def _see_receipt(self, row: KeptReceipt, sink: Sink) -> None:
        self._told.add("receipt", check_receipt(row))
        lines = received(row) if row.refusal is None else None
        for sku, quantity in (lines or {}).items():
            sink.expect(Key(row.movement, row.id, None, sku), quantity, row.created_at)

    def _tell_of_unknown_skus(self) -> None:
        rows = self._executor.execute(WITHOUT_STOCK, {}).fetchall()
        found = dict.fromkeys(sku for (sku,) in rows)
        self._told.add(
            "sku", (f"stock {sku!r}: there are entries of it, but no stock" for sku in found)
        )


class _Told:
    """What was found, by its sort; of each sort the first."""

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

    def expect(self, key: Key, quantity: int, at: int) -> None:
        self.entries[_bucket(key.reference)] += _hash(key, quantity, at)

    def enter(self, key: Key, quantity: int, at: int) -> None:
        self.entries[_bucket(key.reference)] -= _hash(key, quantity, at)
        self.stock[_bucket(key.sku)] -= _weigh(key.sku, entered(key.movement, quantity))

    def keep(self, sku: str, kept: KeptStock) -> None:
        # One that is wrong by itself is to be read again, whatever its entries say.
        is_right = not any(check_stock(sku, kept, kept))
        self.stock[_bucket(sku)] += _weigh(sku, kept) if is_right else hash((sku, kept))


class _Rest:
    """The rows of buckets in which something is left."""

    def __init__(self, sums: _Sums) -> None:
        self._in_entries = _broken(sums.entries)
        self._in_stock = _broken(sums.stock)
        self._expected: dict[Key, list[tuple[int, int]]] = defaultdict(list)
        self._entered: dict[Key, list[tuple[int, int]]] = defaultdict(list)
        self._stock: dict[str, KeptStock] = {}
        self._sums: dict[str, KeptStock] = defaultdict(KeptStock)

    def expect(self, key: Key, quantity: int, at: int) -> None:
        if _bucket(key.reference) in self._in_entries:
            self._expected[key].append((quantity, at))

    def enter(self, key: Key, quantity: int, at: int) -> None:
        if _bucket(key.reference) in self._in_entries:
            self._entered[key].append((quantity, at))
        if _bucket(key.sku) in self._in_stock:
            more = zip(self._sums[key.sku], entered(key.movement, quantity), strict=True)
            self._sums[key.sku] = KeptStock(*(before + plus for before, plus in more))

    def keep(self, sku: str, kept: KeptStock) -> None:
        if _bucket(sku) in self._in_stock:
            self._stock[sku] = kept

    def of_stock(self) -> Iterator[str]:
        for sku, kept in self._stock.items():
            yield from check_stock(sku, kept, self._sums.get(sku, KeptStock()))

    def of_entries(self) -> Iterator[str]:
        keys = {*self._expected, *self._entered}
        for key in sorted(keys, key=lambda key: (key.reference, key.movement, *map(str, key))):
            expected, found = sorted(self._expected[key]), sorted(self._entered[key])
            if expected != found:
                yield _say_of_entries(key, expected, found)


class _Lapses:
    """Which holds have a task that ends them. Eight bytes for each such task."""

    def __init__(self, executor: Executor, pages: Pages) -> None:
        self._executor = executor
        self._pages = pages
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
        for _, payload in self._pages.walk(TASKS, where, kind=LAPSE):
            yield hash(msgspec.json.decode(payload)["deduction"])


def _say_of_entries(key: Key, expected: list[tuple[int, int]], found: list[tuple[int, int]]) -> str:
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


def _hash(key: Key, quantity: int, at: int) -> int:
    # Python has the same hash for -1 and -2, but not for other numbers.
    return hash((key, 2 * quantity, at))


def _broken(sums: list[int]) -> set[int]:
    """The first buckets in which something is left."""
    return set([number for number, left in enumerate(sums) if left][:LOOKED_INTO])


def _weigh(sku: str, sums: KeptStock) -> int:
    return sum(hash((sku, place)) * value for place, value in enumerate(sums) if value)

"""Compares movements with their entries, and balances with entries, in memory of a fixed size.

Entries have another order than the rows that they belong to, and sorting them would take much
memory. So each row that must have an entry adds a hash to the sum of its bucket, and each entry
subtracts its own: a sum that is not 0 means rows without entries or entries without rows. The rows
of those buckets are read again and reported. The balances of SKUs are compared in the same way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple, Protocol
from zlib import crc32

from windlass.clock import to_datetime
from windlass.ledger.model.audit import (
    COMES_BACK,
    COMES_IN,
    SHOWN_OF_EACH,
    Balance,
    balance_of,
    check_stock,
)
from windlass.ledger.model.ledger import Movement

BUCKETS = 1 << 14
# One more than is shown, to know whether there are more.
BUCKETS_READ = SHOWN_OF_EACH + 1


class EntryKey(NamedTuple):
    """What an entry is about: there is one for each line of each movement."""

    movement: str
    reference: str
    return_id: str | None
    sku: str


class EntrySink(Protocol):
    """Takes what must have an entry, the entries, and the stock."""

    def expect(self, key: EntryKey, quantity: int, at: int) -> None: ...

    def enter(self, key: EntryKey, quantity: int, at: int) -> None: ...

    def keep(self, sku: str, kept: Balance) -> None: ...


class EntrySums:
    """Sums of hashes by bucket; each is 0 if rows and entries agree."""

    def __init__(self) -> None:
        self.entries = [0] * BUCKETS
        self.stock = [0] * BUCKETS

    @property
    def is_broken(self) -> bool:
        """Whether something does not agree."""
        return any(self.entries) or any(self.stock)

    def expect(self, key: EntryKey, quantity: int, at: int) -> None:
        self.entries[_bucket(key.reference)] += _hash(key, quantity, at)

    def enter(self, key: EntryKey, quantity: int, at: int) -> None:
        self.entries[_bucket(key.reference)] -= _hash(key, quantity, at)
        self.stock[_bucket(key.sku)] -= _weigh(key.sku, balance_of(key.movement, quantity))

    def keep(self, sku: str, kept: Balance) -> None:
        # A wrong balance must be read again, whatever its entries say.
        is_right = not any(check_stock(sku, kept, kept))
        self.stock[_bucket(sku)] += _weigh(sku, kept) if is_right else hash((sku, kept))


class EntryMismatches:
    """The rows of buckets whose sums are not 0."""

    def __init__(self, sums: EntrySums) -> None:
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
    """The first buckets whose sums are not 0."""
    return set([number for number, left in enumerate(sums) if left][:BUCKETS_READ])


def _weigh(sku: str, sums: Balance) -> int:
    return sum(hash((sku, place)) * value for place, value in enumerate(sums) if value)

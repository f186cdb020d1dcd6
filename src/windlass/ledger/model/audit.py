"""What must be true of the ledger's rows, and what an audit reports if it is not.

The body, the refusal and the status of a row say what was answered; its lines say the same again,
and its entries a third time. Nothing is assumed about the rows: a status may not exist, and a body
may be unreadable.

Entries have another order than the rows that they belong to, and sorting them would take much
memory. So each row that must have an entry adds a hash to the sum of its bucket, and each entry
subtracts its own: a sum that is not 0 means rows without entries or entries without rows. The rows
of those buckets are read again and reported. The balances of SKUs are compared in the same way.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from windlass.clock import to_datetime
from windlass.errors import WindlassError
from windlass.ledger.model.book import DeductionRow, LineRow, ReceiptRow, ReturnRow
from windlass.ledger.model.ledger import (
    LAPSE,
    VOID,
    Adjust,
    Deduct,
    DeductionStatus,
    Exchange,
    GiveBack,
    Movement,
    Refusal,
    Restock,
    check_lines,
    check_reason,
    decode_refusal,
    difference,
)

# An audit shows this many problems of each sort.
SHOWN_OF_EACH = 20
BUCKETS = 1 << 14
# One more than is shown, to know whether there are more.
BUCKETS_READ = SHOWN_OF_EACH + 1

COMES_IN = (Movement.RESTOCK, Movement.ADJUST)
COMES_BACK = (Movement.RETURN, Movement.EXCHANGE, Movement.VOID, Movement.LAPSE)

# The possible refusals and their facts.
FULL = {"BalanceLimit": {"sku", "wanted", "room"}}
SHORT = {"OutOfStock": {"sku", "wanted", "available"}, "UnknownSku": {"sku"}} | FULL
OVER = {"OverReturn": {"sku", "wanted", "returnable"}, "UnknownDeduction": {"id"}}
LEFT = {"OutOfStock": "available", "OverReturn": "returnable", "BalanceLimit": "room"}


class Balance(NamedTuple):
    """The sums of a SKU, as its row has them or as its entries add up."""

    available: int = 0
    received: int = 0
    deducted: int = 0
    returned: int = 0


@dataclass(eq=False)
class DeductionCheck:
    """Checks one deduction: first with its lines, by SKU, then with its returns one by one."""

    id: str
    row: DeductionRow | None
    lines: Mapping[str, LineRow]
    given_back: Counter[str] = field(init=False, default_factory=Counter)
    # What exchanges have added to the lines.
    exchanged: Counter[str] = field(init=False, default_factory=Counter)
    own_returns: set[str] = field(init=False, default_factory=set)

    def add(self, return_id: str, row: ReturnRow | None, lines: Mapping[str, int]) -> Iterator[str]:
        """What is wrong with a return of it."""
        what = f"return {return_id!r} of deduction {self.id!r}"
        self.given_back.update(lines)
        if row is None:
            yield f"{what} was never made, but it has {len(lines)} lines"
            return
        if row.refusal is not None:
            yield from self._check_refused(what, row, lines)
            return
        if self.row is None:
            yield f"{what} was made, but there is no such deduction"
        if return_id in (VOID, LAPSE):
            self.own_returns.add(return_id)
        elif not lines:
            yield f"{what} was made, but it has no lines"
        out = exchanged_out(row)
        self.exchanged.update(out)
        made = _return_body(return_id, dict(lines), self.id, out)
        if row.body != made:
            yield f"{what}: {_unlike(row.body, made)}"

    def deducted(self) -> dict[str, int]:
        """What was deducted by itself, without exchanges; known when all returns were added."""
        quantities = {sku: line.quantity for sku, line in self.lines.items()}
        own = {sku: quantity - self.exchanged[sku] for sku, quantity in quantities.items()}
        return {sku: quantity for sku, quantity in own.items() if quantity}

    def end(self, will_lapse: Callable[[str], bool]) -> Iterator[str]:
        """What is wrong with the deduction, after all its returns were added."""
        what = f"deduction {self.id!r}"
        row = self.row
        if row is None:
            if self.lines:
                yield f"{what}: there are lines, but no deduction"
        else:
            yield from (f"{what}{said}" for said in self._check(row, will_lapse))
        yield from self._check_lines(what)

    def _check_refused(self, what: str, row: ReturnRow, lines: Mapping[str, int]) -> Iterator[str]:
        if lines:
            yield f"{what} was refused, but it has {len(lines)} lines"
        if row.return_id in (VOID, LAPSE):
            yield f"{what} is the ledger's own, but it was refused"
        asked, out = _asked(row.body, signed=False), exchanged_out(row)
        if asked is None or _return_body(row.return_id, asked, self.id, out) != row.body:
            yield f"{what}: {_unreadable(row.body)}"
        elif not (
            _is_refusal(row.refusal, asked, self._can_be_refused())
            or _is_refusal(row.refusal, out, SHORT)
        ):
            yield f"{what}: its refusal {_short(row.refusal)} is not possible"

    def _can_be_refused(self) -> Mapping[str, set[str]]:
        """The refusals that a return can have; without a deduction only one."""
        was_made = self.row is not None and self.row.was_made
        return OVER if was_made else {"UnknownDeduction": OVER["UnknownDeduction"]}

    def _check(self, row: DeductionRow, will_lapse: Callable[[str], bool]) -> Iterator[str]:
        if row.body is None:
            yield from self._check_never_made(row)
        elif row.refusal is not None:
            yield from self._check_refusal(row)
        else:
            yield from self._check_made(row, will_lapse)

    def _check_never_made(self, row: DeductionRow) -> Iterator[str]:
        if self.lines:
            yield " was never made, but it has lines"
        if VOID not in self.own_returns:
            yield " was never made, but it was not voided either"
        yield from _wrong_status(row, DeductionStatus.VOIDED)
        if row.refusal is not None or row.hold_until is not None or row.confirmed_at is not None:
            yield " was never made, but it was refused, held or confirmed"

    def _check_refusal(self, row: DeductionRow) -> Iterator[str]:
        if self.lines:
            yield " was refused, but it has lines"
        yield from _wrong_status(row, DeductionStatus.REFUSED)
        if row.hold_until is not None or row.confirmed_at is not None:
            yield " was refused, but it is held or confirmed"
        if LAPSE in self.own_returns:
            yield " was refused, but its hold lapsed"
        asked, hold = _asked(row.body, signed=False), _decoded(row.body).get("hold")
        is_hold = hold is None or (isinstance(hold, int) and hold > 0)
        if asked is None or not is_hold or Deduct(row.id, asked, hold).body != row.body:
            yield f": {_unreadable(row.body)}"
        elif not _is_refusal(row.refusal, asked, SHORT):
            yield f" has a refusal, {_short(row.refusal)}, that is not possible"

    def _check_made(self, row: DeductionRow, will_lapse: Callable[[str], bool]) -> Iterator[str]:
        if not self.lines:
            yield " was made, but it has no lines"
        hold = None if row.hold_until is None else row.hold_until - row.created_at
        made = Deduct(row.id, self.deducted(), hold).body
        if row.body != made:
            yield f": {_unlike(row.body, made)}"
        if hold is None and row.confirmed_at not in (None, row.created_at):
            yield " was never held, but it was confirmed at another time than it was made"
        status = self._status_by_traces(row)
        yield from _wrong_status(row, status)
        if status in (DeductionStatus.VOIDED, DeductionStatus.LAPSED):
            left = sum(line.quantity - line.returned for line in self.lines.values())
            if left:
                yield f" is over, but {left} did not come back"
        if status is DeductionStatus.LAPSED and (row.hold_until is None or row.confirmed_at):
            yield " lapsed, but it was not held, or was confirmed"
        if status is DeductionStatus.HELD and not will_lapse(row.id):
            yield " is held, but no task will end the hold"

    def _status_by_traces(self, row: DeductionRow) -> DeductionStatus:
        """The status that follows from the other columns and from the ledger's own returns."""
        if LAPSE in self.own_returns:
            return DeductionStatus.LAPSED
        if VOID in self.own_returns:
            return DeductionStatus.VOIDED
        is_held = row.hold_until is not None and row.confirmed_at is None
        return DeductionStatus.HELD if is_held else DeductionStatus.DEDUCTED

    def _check_lines(self, what: str) -> Iterator[str]:
        for sku, line in self.lines.items():
            if line.quantity <= 0 or not 0 <= line.returned <= line.quantity:
                yield f"{what}, sku {sku!r}: {line.returned} returned of {line.quantity} deducted"
        for sku in sorted(self.exchanged.keys() - self.lines.keys()):
            yield f"{what}, sku {sku!r}: {self.exchanged[sku]} went out in exchange, without a line"
        for sku in sorted({*self.lines, *self.given_back}):
            back, kept = self.given_back[sku], self.lines.get(sku)
            if kept is None:
                yield f"{what}, sku {sku!r}: {back} came back, but it was never deducted"
            elif kept.returned != back:
                yield (
                    f"{what}, sku {sku!r}: {kept.returned} returned, "
                    f"but its returns add up to {back}"
                )


def exchanged_out(row: ReturnRow) -> dict[str, int]:
    """What a return says went out in exchange; nothing if it cannot be read."""
    return _asked(row.body, signed=False, part="out") or {}


def check_receipt(row: ReceiptRow) -> Iterator[str]:
    """What is wrong with a restock or an adjustment by itself."""
    what = f"{row.movement} {row.id!r}"
    if row.movement not in COMES_IN:
        yield f"{what}: a receipt cannot have the movement {row.movement!r}"
        return
    asked = received(row)
    if asked is None:
        yield f"{what}: {_unreadable(row.body)}"
    elif row.refusal is not None:
        less = {sku: -quantity for sku, quantity in asked.items()}
        is_short = row.movement == Movement.ADJUST and _is_refusal(row.refusal, less, SHORT)
        if not (is_short or _is_refusal(row.refusal, asked, FULL)):
            yield f"{what}: its refusal {_short(row.refusal)} is not possible"


def received(row: ReceiptRow) -> dict[str, int] | None:
    """The lines that a receipt was asked for; None if its body is unreadable."""
    is_restock = row.movement == Movement.RESTOCK
    asked = _asked(row.body, signed=not is_restock)
    if asked is None:
        return None
    try:
        reason = "" if is_restock else check_reason(_decoded(row.body).get("reason"))
    except WindlassError:
        return None
    of = Restock(row.id, asked) if is_restock else Adjust(row.id, asked, reason)
    return asked if of.body == row.body else None


def check_stock(sku: str, kept: Balance, entered: Balance) -> Iterator[str]:
    """What is wrong with the sums of a SKU, by themselves and by its entries."""
    what = f"stock {sku!r}:"
    available, received_, deducted, returned = kept
    if available < 0:
        yield f"{what} {available} available is negative"
    if not 0 <= returned <= deducted:
        yield f"{what} {returned} returned of {deducted} deducted"
    if received_ != available + deducted - returned:
        yield (
            f"{what} received {received_} is not available {available} + deducted {deducted} "
            f"- returned {returned}"
        )
    if available != entered.available:
        yield f"{what} {available} available, but its entries add up to {entered.available}"
    if kept[1:] != entered[1:]:
        yield (
            f"{what} received {received_}, deducted {deducted}, returned {returned}, "
            f"but its entries say {entered.received}, {entered.deducted}, {entered.returned}"
        )


def balance_of(movement: str, quantity: int) -> Balance:
    """What an entry adds to the sums of its SKU."""
    if movement == Movement.DEDUCT or (movement == Movement.EXCHANGE and quantity < 0):
        return Balance(quantity, 0, -quantity, 0)
    if movement in COMES_BACK:
        return Balance(quantity, 0, 0, quantity)
    return Balance(quantity, quantity if movement in COMES_IN else 0, 0, 0)


class EntryKey(NamedTuple):
    """What an entry is about: there is one for each line of each movement."""

    movement: str
    reference: str
    return_id: str | None
    sku: str


class EntrySums:
    """Takes what must have an entry, the entries, and the stock: sums of hashes by bucket.

    Each is 0 if rows and entries agree.
    """

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


EntrySink = EntrySums | EntryMismatches


def _wrong_status(row: DeductionRow, right: DeductionStatus) -> Iterator[str]:
    if row.status == right:
        return
    known = row.status in DeductionStatus.__members__.values()
    said = str(DeductionStatus(row.status)) if known else f"of status {row.status!r}"
    yield f" is {said}, but by its other columns and its returns it is {right}"


def _decoded(body: str | None) -> dict[str, Any]:
    """What a body says; nothing if it cannot be read."""
    try:
        said = msgspec.json.decode(body or "")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _return_body(return_id: str, lines: dict[str, int], of: str, out: dict[str, int]) -> str:
    if out:
        return Exchange(return_id, lines, of, out).body
    return GiveBack(return_id, lines, of).body


def _asked(body: str | None, *, signed: bool, part: str = "lines") -> dict[str, int] | None:
    """The lines of a body, or of a part of it, if a caller can have sent them."""
    try:
        return check_lines(_decoded(body).get(part), signed=signed)
    except WindlassError:
        return None


def _is_refusal(text: str | None, asked: Mapping[str, int], can_be: Mapping[str, set[str]]) -> bool:
    """Whether a request for these lines can have been refused like this."""
    refusal = _refusal(text)
    if refusal is None or can_be.get(str(refusal.error)) != set(refusal.facts):
        return False
    facts: dict[str, Any] = dict(refusal.facts)
    if "sku" in facts and str(facts["sku"]) not in asked:
        return False
    if "wanted" not in facts:
        return True
    left = facts[LEFT[refusal.error]]
    return (
        facts["wanted"] == asked[facts["sku"]] and isinstance(left, int) and left < facts["wanted"]
    )


def _refusal(text: str | None) -> Refusal | None:
    try:
        return decode_refusal(text or "")
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _unlike(body: str | None, made: str) -> str:
    try:
        differs = difference(made, body or "")
    except (ValueError, LookupError, TypeError, AttributeError):
        return _unreadable(body)
    return f"its body is not as its lines are: {differs or _short(body)}"


def _unreadable(body: str | None) -> str:
    return f"its body {_short(body)} is not as the ledger writes it"


def _short(text: str | None) -> str:
    return repr(text) if text is None or len(text) <= 80 else f"{text[:80]!r}..."


def _describe(key: EntryKey, expected: list[tuple[int, int]], found: list[tuple[int, int]]) -> str:
    movement, reference, return_id, sku = key
    sign = -1 if movement == Movement.DEDUCT else 1
    wanted, entries = ([sign * quantity for quantity, _ in rows] for rows in (expected, found))
    if movement == Movement.DEDUCT:
        what, verb = f"deduction {reference!r}", "deducted"
    elif movement in COMES_IN:
        what, verb = f"{movement} {reference!r}", "came in"
    elif movement == Movement.EXCHANGE:
        what, verb = f"exchange {return_id!r} of deduction {reference!r}", "moved"
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

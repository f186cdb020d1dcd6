"""The rules of the ledger: what a request makes of the rows that it is about.

A book has a part of the ledger's rows, read and locked in a transaction. Requests are applied to it
one after the other, and it collects what is to be written. The rules need no database, and one
transaction can have many requests: a refused one changes nothing for the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import assert_never

from windlass.clock import to_datetime
from windlass.ledger.model.ledger import (
    MOST_IN_ALL,
    Adjust,
    Confirm,
    Confirmation,
    Conflict,
    Deduct,
    Deduction,
    DeductionLine,
    DeductionStatus,
    Exchange,
    GiveBack,
    Line,
    Movement,
    Outcome,
    Receipt,
    Refusal,
    Request,
    Restock,
    Return,
    Undo,
    decode_refusal,
    difference,
    lines_of,
)

NOTHING = '{"lines":{}}'
# More than any number of requests can ask for.
PLENTY = 1 << 100
NONE: Mapping[str, int] = MappingProxyType({})


@dataclass(slots=True)
class DeductionRow:
    """A deduction. Without a body it was voided before it arrived, and can never be made."""

    id: str
    status: DeductionStatus
    body: str | None
    refusal: str | None
    hold_until: int | None
    confirmed_at: int | None
    created_at: int
    is_new: bool = False
    is_changed: bool = False

    @property
    def was_made(self) -> bool:
        return self.body is not None and self.refusal is None


@dataclass(slots=True)
class LineRow:
    """One SKU of a deduction.

    `change` is what this transaction gives back of it, `more` what it deducts in an exchange.
    """

    deduction_id: str
    sku: str
    quantity: int
    returned: int
    is_new: bool = False
    change: int = 0
    more: int = 0

    @property
    def returnable(self) -> int:
        return self.quantity - self.returned


@dataclass(slots=True)
class ReturnRow:
    """A return under its id, made or refused."""

    deduction_id: str
    return_id: str
    body: str
    refusal: str | None
    created_at: int
    is_new: bool = False


@dataclass(slots=True)
class ReturnLineRow:
    """One SKU of a return; only ever inserted."""

    deduction_id: str
    return_id: str
    sku: str
    quantity: int
    is_new = True


@dataclass(slots=True)
class ReceiptRow:
    """A restock or an adjustment under its id, made or refused."""

    movement: Movement
    id: str
    body: str
    refusal: str | None
    created_at: int
    is_new: bool = False


@dataclass(slots=True)
class StockRow:
    """What is available of a SKU, and how much more may come in and go out.

    The other fields are the changes of this transaction.
    """

    sku: str
    available: int
    received_before: int = 0
    deducted_before: int = 0
    received: int = 0
    deducted: int = 0
    returned: int = 0
    change: int = 0
    is_new: bool = False

    @property
    def is_touched(self) -> bool:
        return bool(self.received or self.deducted or self.returned)


@dataclass(slots=True)
class EntryRow:
    """One change of what is available; only ever inserted."""

    sku: str
    quantity: int
    movement: Movement
    reference: str
    return_id: str | None
    created_at: int
    is_new = True


@dataclass(slots=True)
class Book:
    """The rows that requests are about, as they were found and as they become."""

    stock: dict[str, StockRow] = field(default_factory=dict)
    deductions: dict[str, DeductionRow] = field(default_factory=dict)
    lines: dict[str, dict[str, LineRow]] = field(default_factory=dict)
    returns: dict[tuple[str, str], ReturnRow] = field(default_factory=dict)
    receipts: dict[tuple[Movement, str], ReceiptRow] = field(default_factory=dict)
    return_lines: list[ReturnLineRow] = field(default_factory=list)
    entries: list[EntryRow] = field(default_factory=list)

    @classmethod
    def optimistic(cls, requests: Iterable[Request]) -> Book | None:
        """A book for which no row was read: it assumes that ids are new and stock suffices.

        Its answers are right if that is so. None if rows must be read to answer a request.
        """
        book, used = cls(), set[tuple[str, ...]]()
        for request in requests:
            match request:
                case Deduct(hold=None):
                    key: tuple[str, ...] = (request.id,)
                case GiveBack():
                    key = (request.deduction, request.id)
                    book._assume_returnable(request)
                case _:
                    return None
            if key in used:
                return None
            used.add(key)
            for sku in request.lines:
                book.stock.setdefault(sku, StockRow(sku, PLENTY))
        # A deduction of the same group has lines of its own.
        return None if any((of,) in used for of in book.deductions) else book

    def _assume_returnable(self, request: GiveBack) -> None:
        of = request.deduction
        made = DeductionRow(of, DeductionStatus.DEDUCTED, NOTHING, None, None, None, 0)
        self.deductions.setdefault(of, made)
        lines = self.lines.setdefault(of, {})
        for sku in request.lines:
            lines.setdefault(sku, LineRow(of, sku, PLENTY, 0))

    def apply(self, request: Request, now: int) -> Outcome:
        """What the ledger answers; the rows become what the answer says."""
        match request:
            case Restock() | Adjust():
                return self._receive(request, now)
            case Deduct():
                return self._deduct(request, now)
            case GiveBack() | Exchange():
                return self._give_back(request, now)
            case Undo(movement=Movement.LAPSE):
                return self._lapse(request, now)
            case Undo():
                return self._void(request, now)
            case Confirm():
                return self._confirm(request, now)
        assert_never(request)

    def _receive(self, request: Restock | Adjust, now: int) -> Outcome:
        place = (request.movement, request.id)
        found = self.receipts.get(place)
        if found is not None:
            return _failed_before(found, request) or _receipt(found, replayed=True)
        less = {sku: -quantity for sku, quantity in request.lines.items()}
        refusal = None if request.movement is Movement.RESTOCK else self._shortage(less)
        refusal = refusal or self._excess(request.lines)
        row = ReceiptRow(*place, request.body, _encoded(refusal), now, is_new=True)
        self.receipts[place] = row
        if refusal is not None:
            return refusal
        for sku, quantity in request.lines.items():
            # Only a restock can have a SKU that is new.
            stock = self.stock.setdefault(sku, StockRow(sku, 0, is_new=True))
            stock.received += quantity
            self._move(stock, EntryRow(sku, quantity, row.movement, row.id, None, now))
        return _receipt(row)

    def _deduct(self, request: Deduct, now: int) -> Outcome:
        found = self.deductions.get(request.id)
        if found is not None:
            return _failed_before(found, request) or _deduction(found, replayed=True)
        refusal = self._not_deductible(request.lines)
        hold = None if refusal is not None else request.hold
        row = DeductionRow(
            request.id,
            _status(refusal, hold),
            request.body,
            refusal=_encoded(refusal),
            hold_until=None if hold is None else now + hold,
            confirmed_at=None,
            created_at=now,
            is_new=True,
        )
        self.deductions[request.id] = row
        if refusal is not None:
            return refusal
        lines = self.lines.setdefault(request.id, {})
        for sku, quantity in request.lines.items():
            lines[sku] = LineRow(request.id, sku, quantity, 0, is_new=True)
            stock = self.stock[sku]
            stock.deducted += quantity
            self._move(stock, EntryRow(sku, -quantity, Movement.DEDUCT, request.id, None, now))
        return _deduction(row)

    def refuse(self, request: Deduct, refusal: Refusal, now: int) -> Outcome:
        """Write down that this deduction was refused elsewhere, if its id is new."""
        found = self.deductions.get(request.id)
        if found is not None:
            return _failed_before(found, request) or _deduction(found, replayed=True)
        status, why = DeductionStatus.REFUSED, _encoded(refusal)
        self.deductions[request.id] = DeductionRow(
            request.id, status, request.body, why, None, None, now, is_new=True
        )
        return refusal

    def why_not(self, request: Deduct, *, coming: Mapping[str, int]) -> Refusal | None:
        """Why a deduction would be refused, also after what is `coming`."""
        return self._not_deductible(request.lines, coming=coming)

    def _give_back(self, request: GiveBack | Exchange, now: int) -> Outcome:
        place = (request.deduction, request.id)
        found = self.returns.get(place)
        if found is not None:
            return _failed_before(found, request) or _return(found, replayed=True)
        refusal = self._not_returnable(request)
        if refusal is None and isinstance(request, Exchange):
            refusal = self._not_deductible(request.out, coming=request.lines)
        row = ReturnRow(*place, request.body, _encoded(refusal), now, is_new=True)
        self.returns[place] = row
        if refusal is not None:
            return refusal
        self._take_back(row, request.lines, request.movement)
        if isinstance(request, Exchange):
            self._hand_out(row, request.out)
        return _return(row)

    def _void(self, request: Undo, now: int) -> Outcome:
        place = (request.deduction, request.id)
        found = self.returns.get(place)
        if found is not None:
            return _return(found, replayed=True)
        deduction = self.deductions.get(request.deduction)
        row = self.returns[place] = ReturnRow(*place, NOTHING, None, now, is_new=True)
        if deduction is None:
            self.deductions[request.deduction] = DeductionRow(
                request.deduction, DeductionStatus.VOIDED, None, None, None, None, now, is_new=True
            )
        elif deduction.status in (DeductionStatus.HELD, DeductionStatus.DEDUCTED):
            self._end(deduction, row, request.movement)
            deduction.status = DeductionStatus.VOIDED
        return _return(row)

    def _lapse(self, request: Undo, now: int) -> Outcome:
        place = (request.deduction, request.id)
        deduction = self.deductions.get(request.deduction)
        row = ReturnRow(*place, NOTHING, None, now, is_new=True)
        if deduction is not None and deduction.status is DeductionStatus.HELD:
            assert deduction.hold_until is not None
            if deduction.hold_until <= now:
                self.returns[place] = row
                self._end(deduction, row, request.movement)
                deduction.status = DeductionStatus.LAPSED
        return _return(row)

    def _confirm(self, request: Confirm, now: int) -> Outcome:
        row = self.deductions.get(request.deduction)
        if row is None:
            return Refusal("UnknownDeduction", {"id": request.deduction})
        if row.confirmed_at is not None:
            return Confirmation(request.deduction, to_datetime(row.confirmed_at), replayed=True)
        if row.status not in (DeductionStatus.HELD, DeductionStatus.DEDUCTED):
            return Refusal("NotHeld", {"id": request.deduction, "status": str(row.status)})
        # Without a hold it was final from the start.
        row.confirmed_at = now if row.status is DeductionStatus.HELD else row.created_at
        row.status, row.is_changed = DeductionStatus.DEDUCTED, True
        return Confirmation(request.deduction, to_datetime(row.confirmed_at))

    def _not_deductible(
        self, lines: Mapping[str, int], *, coming: Mapping[str, int] | None = None
    ) -> Refusal | None:
        """Why these lines cannot go out, also after what is `coming` back."""
        refusal = self._shortage(lines, coming or {})
        if refusal is not None:
            return refusal
        for sku, wanted in lines.items():
            room = MOST_IN_ALL - self.stock[sku].deducted_before - self.stock[sku].deducted
            if wanted > room:
                return Refusal("BalanceLimit", {"sku": sku, "wanted": wanted, "room": room})
        return None

    def _shortage(
        self, lines: Mapping[str, int], coming: Mapping[str, int] = NONE
    ) -> Refusal | None:
        for sku, wanted in lines.items():
            stock = self.stock.get(sku)
            if stock is None:
                return Refusal("UnknownSku", {"sku": sku})
            available = stock.available + coming.get(sku, 0)
            if wanted > available:
                facts: dict[str, str | int] = {"wanted": wanted, "available": available}
                return Refusal("OutOfStock", {"sku": sku, **facts})
        return None

    def _excess(self, lines: Mapping[str, int]) -> Refusal | None:
        for sku, wanted in lines.items():
            stock = self.stock.get(sku, StockRow(sku, 0))
            room = MOST_IN_ALL - stock.received_before - stock.received
            if wanted > room:
                return Refusal("BalanceLimit", {"sku": sku, "wanted": wanted, "room": room})
        return None

    def _not_returnable(self, request: GiveBack | Exchange) -> Refusal | None:
        deduction = self.deductions.get(request.deduction)
        if deduction is None or not deduction.was_made:
            return Refusal("UnknownDeduction", {"id": request.deduction})
        lines = self.lines.get(request.deduction, {})
        for sku, wanted in request.lines.items():
            line = lines.get(sku)
            returnable = 0 if line is None else line.returnable
            if wanted > returnable:
                facts: dict[str, str | int] = {"wanted": wanted, "returnable": returnable}
                return Refusal("OverReturn", {"sku": sku, **facts})
        return None

    def _end(self, deduction: DeductionRow, row: ReturnRow, movement: Movement) -> None:
        """Give back all that is left of the deduction."""
        own = self.lines.get(deduction.id, {})
        left = {sku: own[sku].returnable for sku in sorted(own) if own[sku].returnable}
        row.body = GiveBack(row.return_id, left, deduction.id).body
        self._take_back(row, left, movement)
        deduction.is_changed = True

    def _take_back(self, row: ReturnRow, lines: Mapping[str, int], movement: Movement) -> None:
        place = row.deduction_id, row.return_id
        for sku, quantity in lines.items():
            line, stock = self.lines[row.deduction_id][sku], self.stock[sku]
            line.returned += quantity
            line.change += quantity
            stock.returned += quantity
            self.return_lines.append(ReturnLineRow(*place, sku, quantity))
            self._move(stock, EntryRow(sku, quantity, movement, *place, row.created_at))

    def _hand_out(self, row: ReturnRow, lines: Mapping[str, int]) -> None:
        """Add these lines to the deduction of an exchange."""
        of = row.deduction_id
        own = self.lines[of]
        for sku, quantity in lines.items():
            line = own.setdefault(sku, LineRow(of, sku, 0, 0, is_new=True))
            line.quantity += quantity
            line.more += quantity
            stock = self.stock[sku]
            stock.deducted += quantity
            place = of, row.return_id
            self._move(stock, EntryRow(sku, -quantity, Movement.EXCHANGE, *place, row.created_at))
        # Written, so that a transaction with an older view of the lines cannot commit.
        self.deductions[of].is_changed = True

    def _move(self, stock: StockRow, entry: EntryRow) -> None:
        stock.available += entry.quantity
        stock.change += entry.quantity
        self.entries.append(entry)


def _failed_before(
    row: DeductionRow | ReturnRow | ReceiptRow,
    request: Deduct | GiveBack | Exchange | Restock | Adjust,
) -> Conflict | Refusal | None:
    """Why the id of `row` cannot be used for this request; None if the row is its answer."""
    if row.body is None:
        return Conflict(request.id, "it was voided before it was made")
    if row.body != request.body:
        return Conflict(request.id, difference(row.body, request.body))
    return None if row.refusal is None else decode_refusal(row.refusal)


def _status(refusal: Refusal | None, hold: int | None) -> DeductionStatus:
    if refusal is not None:
        return DeductionStatus.REFUSED
    return DeductionStatus.DEDUCTED if hold is None else DeductionStatus.HELD


def _encoded(refusal: Refusal | None) -> str | None:
    return None if refusal is None else refusal.encode()


def _deduction(row: DeductionRow, *, replayed: bool = False) -> Deduction:
    """The deduction as it was when it was made."""
    assert row.body is not None
    return Deduction(
        row.id,
        _status(None, row.hold_until),
        lines_of(row.body, DeductionLine),
        to_datetime(row.created_at),
        None if row.hold_until is None else to_datetime(row.hold_until),
        replayed=replayed,
    )


def _return(row: ReturnRow, *, replayed: bool = False) -> Return:
    place, lines = (row.deduction_id, row.return_id), lines_of(row.body, Line)
    out = lines_of(row.body, Line, part="out")
    return Return(*place, lines, to_datetime(row.created_at), replayed, out)


def _receipt(row: ReceiptRow, *, replayed: bool = False) -> Receipt:
    made_at, lines = to_datetime(row.created_at), lines_of(row.body, Line)
    return Receipt(row.id, row.movement, lines, made_at, replayed)

"""What must be true of the ledger's rows, and what an audit reports if it is not.

The body, the refusal and the status of a row say what was answered; its lines say the same again,
and its entries a third time. Here the first two are compared. Nothing is assumed about the rows: a
status may not exist, and a body may be unreadable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from windlass.errors import WindlassError
from windlass.ledger.model.book import DeductionRow, LineRow, ReceiptRow, ReturnRow
from windlass.ledger.model.ledger import (
    OWN_RETURNS,
    Adjust,
    Deduct,
    DeductionStatus,
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

VOID, LAPSE = OWN_RETURNS[Movement.VOID], OWN_RETURNS[Movement.LAPSE]
COMES_IN = (Movement.RESTOCK, Movement.ADJUST)
COMES_BACK = (Movement.RETURN, Movement.VOID, Movement.LAPSE)

# The possible refusals and their facts.
SHORT = {"OutOfStock": {"sku", "wanted", "available"}, "UnknownSku": {"sku"}}
OVER = {"OverReturn": {"sku", "wanted", "returnable"}, "UnknownDeduction": {"id"}}
LEFT = {"OutOfStock": "available", "OverReturn": "returnable"}


class Balance(NamedTuple):
    """The sums of a SKU, as its row has them or as its entries add up."""

    available: int = 0
    received: int = 0
    deducted: int = 0
    returned: int = 0


class DeductionCheck:
    """Checks one deduction: first with its lines, then with its returns one by one."""

    def __init__(self, id_: str, deduction: DeductionRow | None, lines: Iterable[LineRow]) -> None:
        self._id = id_
        self._row = deduction
        self._lines = {line.sku: line for line in lines}
        self._given_back: dict[str, int] = {}
        self._own: set[str] = set()

    def add(self, return_id: str, row: ReturnRow | None, lines: Mapping[str, int]) -> Iterator[str]:
        """What is wrong with a return of it."""
        what = f"return {return_id!r} of deduction {self._id!r}"
        for sku, quantity in lines.items():
            self._given_back[sku] = self._given_back.get(sku, 0) + quantity
        if row is None:
            yield f"{what} was never made, but it has {len(lines)} lines"
            return
        if row.refusal is not None:
            yield from self._check_refused(what, row, lines)
            return
        if self._row is None:
            yield f"{what} was made, but there is no such deduction"
        if return_id in OWN_RETURNS.values():
            self._own.add(return_id)
        elif not lines:
            yield f"{what} was made, but it has no lines"
        made = GiveBack(self._id, return_id, dict(lines)).body
        if row.body != made:
            yield f"{what}: {_unlike(row.body, made)}"

    def end(self, will_lapse: Callable[[str], bool]) -> Iterator[str]:
        """What is wrong with the deduction, after all its returns were added."""
        what = f"deduction {self._id!r}"
        row = self._row
        if row is None:
            if self._lines:
                yield f"{what}: there are lines, but no deduction"
        else:
            yield from (f"{what}{said}" for said in self._check(row, will_lapse))
        yield from self._check_lines(what)

    def _check_refused(self, what: str, row: ReturnRow, lines: Mapping[str, int]) -> Iterator[str]:
        if lines:
            yield f"{what} was refused, but it has {len(lines)} lines"
        if row.return_id in OWN_RETURNS.values():
            yield f"{what} is the ledger's own, but it was refused"
        asked = _asked(row.body, signed=False)
        if asked is None or GiveBack(self._id, row.return_id, asked).body != row.body:
            yield f"{what}: {_unreadable(row.body)}"
        elif not _is_refusal(row.refusal, asked, self._can_be_refused()):
            yield f"{what}: its refusal {_short(row.refusal)} is not possible"

    def _can_be_refused(self) -> Mapping[str, set[str]]:
        """The refusals that a return can have; without a deduction only one."""
        was_made = self._row is not None and self._row.was_made
        return OVER if was_made else {"UnknownDeduction": OVER["UnknownDeduction"]}

    def _check(self, row: DeductionRow, will_lapse: Callable[[str], bool]) -> Iterator[str]:
        if row.body is None:
            yield from self._check_never_made(row)
        elif row.refusal is not None:
            yield from self._check_refusal(row)
        else:
            yield from self._check_made(row, will_lapse)

    def _check_never_made(self, row: DeductionRow) -> Iterator[str]:
        if self._lines:
            yield " was never made, but it has lines"
        if VOID not in self._own:
            yield " was never made, but it was not voided either"
        yield from _wrong_status(row, DeductionStatus.VOIDED)
        if row.refusal is not None or row.hold_until is not None or row.confirmed_at is not None:
            yield " was never made, but it was refused, held or confirmed"

    def _check_refusal(self, row: DeductionRow) -> Iterator[str]:
        if self._lines:
            yield " was refused, but it has lines"
        yield from _wrong_status(row, DeductionStatus.REFUSED)
        if row.hold_until is not None or row.confirmed_at is not None:
            yield " was refused, but it is held or confirmed"
        if LAPSE in self._own:
            yield " was refused, but its hold lapsed"
        asked, hold = _asked(row.body, signed=False), _decoded(row.body).get("hold")
        is_hold = hold is None or (isinstance(hold, int) and hold > 0)
        if asked is None or not is_hold or Deduct(row.id, asked, hold).body != row.body:
            yield f": {_unreadable(row.body)}"
        elif not _is_refusal(row.refusal, asked, SHORT):
            yield f" has a refusal, {_short(row.refusal)}, that is not possible"

    def _check_made(self, row: DeductionRow, will_lapse: Callable[[str], bool]) -> Iterator[str]:
        if not self._lines:
            yield " was made, but it has no lines"
        hold = None if row.hold_until is None else row.hold_until - row.created_at
        made = Deduct(row.id, {of: line.quantity for of, line in self._lines.items()}, hold).body
        if row.body != made:
            yield f": {_unlike(row.body, made)}"
        if hold is None and row.confirmed_at not in (None, row.created_at):
            yield " was never held, but it was confirmed at another time than it was made"
        status = self._status_by_traces(row)
        yield from _wrong_status(row, status)
        if status in (DeductionStatus.VOIDED, DeductionStatus.LAPSED):
            left = sum(line.quantity - line.returned for line in self._lines.values())
            if left:
                yield f" is over, but {left} did not come back"
        if status is DeductionStatus.LAPSED and (row.hold_until is None or row.confirmed_at):
            yield " lapsed, but it was not held, or was confirmed"
        if status is DeductionStatus.HELD and not will_lapse(row.id):
            yield " is held, but no task will end the hold"

    def _status_by_traces(self, row: DeductionRow) -> DeductionStatus:
        """The status that follows from the other columns and from the ledger's own returns."""
        if LAPSE in self._own:
            return DeductionStatus.LAPSED
        if VOID in self._own:
            return DeductionStatus.VOIDED
        is_held = row.hold_until is not None and row.confirmed_at is None
        return DeductionStatus.HELD if is_held else DeductionStatus.DEDUCTED

    def _check_lines(self, what: str) -> Iterator[str]:
        for sku, line in self._lines.items():
            if line.quantity <= 0 or not 0 <= line.returned <= line.quantity:
                yield f"{what}, sku {sku!r}: {line.returned} returned of {line.quantity} deducted"
        for sku in sorted({*self._lines, *self._given_back}):
            back, kept = self._given_back.get(sku, 0), self._lines.get(sku)
            if kept is None:
                yield f"{what}, sku {sku!r}: {back} came back, but it was never deducted"
            elif kept.returned != back:
                yield (
                    f"{what}, sku {sku!r}: {kept.returned} returned, "
                    f"but its returns add up to {back}"
                )


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
        if row.movement == Movement.RESTOCK or not _is_refusal(row.refusal, less, SHORT):
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
    if movement == Movement.DEDUCT:
        return Balance(quantity, 0, -quantity, 0)
    if movement in COMES_BACK:
        return Balance(quantity, 0, 0, quantity)
    return Balance(quantity, quantity if movement in COMES_IN else 0, 0, 0)


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


def _asked(body: str | None, *, signed: bool) -> dict[str, int] | None:
    """The lines of a body, if a caller can have sent them."""
    try:
        return check_lines(_decoded(body).get("lines"), signed=signed)
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

"""The requests that a ledger takes and the answers that it gives, as immutable values.

Operators list rows with their first lines.

A request is checked when it is made, so that all later code can rely on it: every database can
store its ids and SKUs, and it has each SKU once, in the order of their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec

from windlass.errors import BadInput, BadKey, InvalidQuantity
from windlass.value.duration import Duration, parse_duration
from windlass.value.status import NamedCode
from windlass.value.task import LONGEST_KEY, RESERVED, is_storable
from windlass.view.field import Moment

T = TypeVar("T")

MOST_OF_A_SKU = 10**12
# What came in of a SKU, and what went out; a BIGINT ends above nine times as much.
MOST_IN_ALL = 10**18
MOST_LINES = 10_000
# The key of a row may have three of them, and an index of PostgreSQL takes at most 2,704 bytes.
MOST_BYTES = 880
LONGEST_REASON = 1_000

Lines = Mapping[str, int] | Iterable[tuple[str, int]]


class DeductionStatus(NamedCode):
    """What became of a deduction."""

    HELD = 0
    DEDUCTED = 1
    REFUSED = 2
    VOIDED = 3
    LAPSED = 4


class Movement(StrEnum):
    """Why an entry is in the ledger."""

    RESTOCK = "restock"
    ADJUST = "adjust"
    DEDUCT = "deduct"
    RETURN = "return"
    EXCHANGE = "exchange"
    VOID = "void"
    LAPSE = "lapse"


# The returns that the ledger makes itself; callers cannot have these ids.
VOID, LAPSE = f"{RESERVED}void", f"{RESERVED}lapse"
OWN_RETURNS = {VOID: Movement.VOID, LAPSE: Movement.LAPSE}


def movement_of(return_id: str) -> Movement:
    """What makes the entries of a return."""
    return OWN_RETURNS.get(return_id, Movement.RETURN)


@dataclass(frozen=True, slots=True)
class _Lines:
    """What callers move, under an id that they choose."""

    id: str
    lines: dict[str, int]

    @property
    def body(self) -> str:
        return _encode({"lines": self.lines})


@dataclass(frozen=True, slots=True)
class Restock(_Lines):
    """Goods that came in."""

    movement = Movement.RESTOCK

    @classmethod
    def of(cls, id: object, lines: object) -> Restock:
        """The checked request."""
        return cls(check_id(id, what="id"), check_lines(lines))


@dataclass(frozen=True, slots=True)
class Adjust(_Lines):
    """A count found more, or less."""

    reason: str = ""
    movement = Movement.ADJUST

    @classmethod
    def of(cls, id: object, lines: object, reason: object) -> Adjust:
        """The checked request."""
        checked = check_lines(lines, signed=True)
        return cls(check_id(id, what="id"), checked, check_reason(reason))

    @property
    def body(self) -> str:
        return _encode({"lines": self.lines, "reason": self.reason})


@dataclass(frozen=True, slots=True)
class Deduct(_Lines):
    """Goods that go out, all of them or none; with a hold, until it lapses."""

    hold: int | None = None

    @classmethod
    def of(cls, id: object, lines: object, hold: Duration | None) -> Deduct:
        """The checked request."""
        lasts = None if hold is None else parse_duration(hold, what="hold")
        return cls(check_id(id, what="id"), check_lines(lines), lasts)

    @property
    def body(self) -> str:
        if self.hold is None:
            return _encode({"lines": self.lines})
        return _encode({"lines": self.lines, "hold": self.hold})


@dataclass(frozen=True, slots=True)
class GiveBack(_Lines):
    """A part of a deduction that comes back."""

    deduction: str
    movement = Movement.RETURN

    @classmethod
    def of(cls, deduction: object, id: object, lines: object) -> GiveBack:
        """The checked request."""
        of = check_id(deduction, what="id")
        return cls(check_id(id, what="return id"), check_lines(lines), of)


@dataclass(frozen=True, slots=True)
class Exchange(_Lines):
    """A part of a deduction that comes back, and other goods that go out for it."""

    deduction: str
    out: dict[str, int]
    movement = Movement.EXCHANGE

    @classmethod
    def of(cls, deduction: object, id: object, *, back: object, out: object) -> Exchange:
        """The checked request."""
        of = check_id(deduction, what="id")
        lines = check_lines(back, what="back")
        return cls(check_id(id, what="exchange id"), lines, of, check_lines(out, what="out"))

    @property
    def body(self) -> str:
        return _encode({"lines": self.lines, "out": self.out})


@dataclass(frozen=True, slots=True)
class Undo:
    """All that is left of a deduction comes back: it is voided, or its hold has lapsed."""

    deduction: str
    movement: Movement

    @classmethod
    def void(cls, deduction: object) -> Undo:
        """The checked request of a caller; only the ledger itself lets a hold lapse."""
        return cls(check_id(deduction, what="id"), Movement.VOID)

    @property
    def id(self) -> str:
        return VOID if self.movement is Movement.VOID else LAPSE


@dataclass(frozen=True, slots=True)
class Confirm:
    """A hold that becomes final."""

    deduction: str

    @classmethod
    def of(cls, deduction: object) -> Confirm:
        """The checked request."""
        return cls(check_id(deduction, what="id"))


Request = Restock | Adjust | Deduct | GiveBack | Exchange | Undo | Confirm


@dataclass(frozen=True, slots=True)
class Line:
    """One SKU of a movement."""

    sku: str
    quantity: int


@dataclass(frozen=True, slots=True)
class DeductionLine:
    """One SKU of a deduction, and how much of it has come back."""

    sku: str
    quantity: int
    returned: int = 0

    @property
    def returnable(self) -> int:
        """How much may still be given back."""
        return self.quantity - self.returned


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused: the name of the error, and its facts."""

    error: str
    facts: Mapping[str, str | int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))

    def __hash__(self) -> int:
        return hash((self.error, *self.facts.items()))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.error, dict(self.facts))

    def encode(self) -> str:
        """The text that is stored."""
        return _encode({"error": self.error, **self.facts})


@dataclass(frozen=True, slots=True)
class Conflict:
    """An id that was used before with another body."""

    id: str
    difference: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """A restock or an adjustment that was made."""

    id: str
    movement: Movement
    lines: tuple[Line, ...]
    created_at: datetime
    # Whether this answer was given before; two answers that differ only in this are equal.
    replayed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Deduction:
    """A deduction: as it was made, or, asked for later, as it is now."""

    id: str
    status: DeductionStatus
    lines: tuple[DeductionLine, ...]
    created_at: datetime
    hold_until: datetime | None = None
    confirmed_at: datetime | None = None
    refusal: Refusal | None = None
    replayed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Return:
    """What was given back of a deduction under one id; in an exchange other goods went `out`."""

    deduction: str
    id: str
    lines: tuple[Line, ...]
    created_at: datetime
    replayed: bool = field(default=False, compare=False)
    out: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A deduction that is final, and since when."""

    deduction: str
    confirmed_at: datetime
    replayed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Undecided:
    """Whether a deduction of a hot lane was made is not known; the same id will tell."""

    id: str
    why: str


Answer = Receipt | Deduction | Return | Confirmation
Outcome = Answer | Refusal | Conflict | Undecided


@dataclass(frozen=True, slots=True)
class Stock:
    """How much there is of a SKU: received = available + deducted - returned.

    What hot lanes have is not in these numbers: what they may still sell (`allotted`), and what
    they have sold and is not in the book yet (`unsynced`).
    """

    sku: str
    available: int
    received: int
    deducted: int
    returned: int
    allotted: int = 0
    unsynced: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One change of what is available of a SKU; all of them together are the balance."""

    id: int
    sku: str
    quantity: int
    movement: Movement
    reference: str
    return_id: str | None
    created_at: datetime


@dataclass(frozen=True)
class LedgerPart(Generic[T]):
    """Part of a list. `next` is the cursor of what follows; null at the end.

    A part may be short or empty and have a `next`: one call reads a limited number of rows.
    """

    items: list[T]
    next: str | None
    looked_at: int


@dataclass(frozen=True)
class ListedDeduction:
    """A deduction with its first lines; `refusal` has the error and its facts."""

    id: str
    status: DeductionStatus
    created_at: Moment
    hold_until: Moment | None
    confirmed_at: Moment | None
    refusal: dict[str, Any] | None
    lines: tuple[DeductionLine, ...]
    has_more_lines: bool


@dataclass(frozen=True)
class ListedReturn:
    """A return with its first lines; with a `refusal` nothing came back or went `out`."""

    deduction: str
    id: str
    movement: Movement
    created_at: Moment
    refusal: dict[str, Any] | None
    lines: tuple[Line, ...]
    has_more_lines: bool
    out: tuple[Line, ...]
    has_more_out: bool


@dataclass(frozen=True)
class ListedEntry(Entry):
    """One change of what is available; in a list of one SKU, `balance` is what was left then."""

    balance: int | None = None


@dataclass(frozen=True)
class LedgerPlace:
    """A database that has a ledger; `shard` is what other calls take."""

    shard: str
    name: str


def check_id(given: object, *, what: str) -> str:
    """`given`, if it can be an id or a SKU."""
    if not isinstance(given, str):
        raise BadKey(f"{what} {given!r} is not text; write it as a string")
    if not given:
        raise BadKey(f"{what} is empty")
    if len(given) > LONGEST_KEY:
        raise BadKey(
            f"{what} {given[:40]!r}... has {len(given)} characters; at most {LONGEST_KEY} fit"
        )
    if given.startswith(RESERVED):
        raise BadKey(f"{what} {given!r} is reserved; begin it with something else")
    if not is_storable(given):
        raise BadKey(f"{what} {given!r} has characters that databases cannot store")
    if len(given) * 4 > MOST_BYTES and len(given.encode()) > MOST_BYTES:
        raise BadKey(
            f"{what} {given[:40]!r}... has {len(given.encode())} bytes in UTF-8; "
            f"at most {MOST_BYTES} fit"
        )
    # A plain string, also of a subclass such as a StrEnum.
    return str.__str__(given)


def check_lines(given: object, *, signed: bool = False, what: str = "lines") -> dict[str, int]:
    """The lines by SKU, in the order of their bytes; the same SKU twice is added up first."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise BadInput(f"{what}={given!r}: give a mapping of sku to quantity, or pairs of the two")
    merged: dict[str, int] = {}
    for count, pair in enumerate(given.items() if isinstance(given, Mapping) else given, start=1):
        if count > MOST_LINES:
            raise BadInput(f"more than {MOST_LINES:,} {what}; divide them among several ids")
        sku, quantity = _check_line(pair, signed=signed)
        merged[sku] = merged.get(sku, 0) + quantity
    if not merged:
        raise BadInput(f"no {what}; give at least one sku with its quantity")
    for sku, quantity in merged.items():
        _check_quantity(sku, quantity, signed=signed)
    # The order of code points is that of the bytes.
    return {sku: merged[sku] for sku in sorted(merged)}


def check_reason(given: object) -> str:
    """`given`, if it can be stored with an adjustment."""
    if not isinstance(given, str) or len(given) > LONGEST_REASON or not is_storable(given):
        raise BadInput(f"reason={given!r}: give a text of at most {LONGEST_REASON} characters")
    return given


def difference(before: str, after: str) -> str:
    """What differs between two bodies, in words."""
    old, new = msgspec.json.decode(before), msgspec.json.decode(after)
    found = [
        *_different_lines("sku", old["lines"], new["lines"]),
        *_different_lines("out, sku", old.get("out", {}), new.get("out", {})),
    ]
    for part in ("hold", "reason"):
        was, now = old.get(part), new.get(part)
        if was != now:
            found.append(f"{part} is {_said(part, now)}, it was {_said(part, was)}")
    more = len(found) - 5
    return "; ".join(found[:5]) + (f"; and {more} more" if more > 0 else "")


def _different_lines(what: str, old: Mapping[str, int], new: Mapping[str, int]) -> Iterable[str]:
    for sku in sorted({*old, *new}):
        was, now = old.get(sku), new.get(sku)
        if was is None:
            yield f"{what} {sku!r} was not in it"
        elif now is None:
            yield f"{what} {sku!r} is missing, it was {was}"
        elif was != now:
            yield f"{what} {sku!r} is {now}, it was {was}"


def lines_of(body: str, kind: Callable[[str, int], T], *, part: str = "lines") -> tuple[T, ...]:
    """The lines of a body, or those of its part `out`, as values of a kind."""
    lines = msgspec.json.decode(body).get(part, {})
    return tuple(kind(sku, quantity) for sku, quantity in lines.items())


def decode_refusal(text: str) -> Refusal:
    """The refusal from which `Refusal.encode` made `text`."""
    facts = msgspec.json.decode(text)
    return Refusal(facts.pop("error"), facts)


def _check_line(pair: object, *, signed: bool) -> tuple[str, int]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise BadInput(f"line {pair!r} is not a pair of sku and quantity")
    sku, quantity = pair
    of = check_id(sku, what="sku")
    return of, _check_quantity(of, quantity, signed=signed)


def _check_quantity(sku: str, quantity: object, *, signed: bool) -> int:
    if isinstance(quantity, bool) or not isinstance(quantity, int):
        raise InvalidQuantity(sku, quantity, "is not a whole number")
    if quantity == 0:
        raise InvalidQuantity(sku, quantity, "changes nothing; leave the line out")
    if quantity < 0 and not signed:
        raise InvalidQuantity(sku, quantity, "is negative; give a number from 1 on")
    if abs(quantity) > MOST_OF_A_SKU:
        # Python raises an error if a number of many thousand digits becomes a text.
        shown = quantity if quantity.bit_length() < 200 else f"of {quantity.bit_length()} bits"
        raise InvalidQuantity(sku, shown, f"is too large; at most {MOST_OF_A_SKU} fit")
    return quantity


def _said(part: str, value: object) -> str:
    if value is None:
        return "none"
    return f"{int(str(value)) / 1_000_000:g} s" if part == "hold" else repr(value)


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()

"""The values of the hot lane: what a cache is asked, what it decides, what is remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from secrets import token_hex

import msgspec

from windlass.errors import BadInput
from windlass.ledger.model.ledger import Deduct, Refusal, check_id
from windlass.value.task import RESERVED

# The kind of the tasks that bring records into the book.
SYNC = f"{RESERVED}hot"
# What begins the ids of the receipts by which stock moves between the book and a cache.
MOVED = f"{RESERVED}hot:"
# A cache counts in floating point, which is exact up to nine times as much.
MOST_ALLOTTED = 10**15
LONGEST_LANE = 100
# A longer body is compared by its hash.
LONGEST_MARK = 64

Skus = Iterable[str] | Callable[[str], bool]
Refill = int | Mapping[str, int]


class Verdict(Enum):
    """What a cache decided about a request."""

    TAKEN = "taken"
    # The id was taken before, by the decision that is named.
    KNOWN = "known"
    # The same, with another body.
    CONFLICT = "conflict"
    SHORT = "short"
    # The cache does not have the SKU in this epoch.
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class CacheDecision:
    """A decision: under its name, or why there is too little."""

    verdict: Verdict
    name: str
    sku: str = ""
    wanted: int = 0
    left: int = 0

    @property
    def refusal(self) -> Refusal | None:
        """Why the request is refused, if it is."""
        if self.verdict is not Verdict.SHORT:
            return None
        facts: dict[str, str | int] = {"wanted": self.wanted, "available": self.left}
        return Refusal("OutOfStock", {"sku": self.sku, **facts})


@dataclass(frozen=True, slots=True)
class Question:
    """A request as a cache gets it: its id, what tells bodies apart, and the lines it decides."""

    id: str
    body: str
    lines: Mapping[str, int]

    @property
    def mark(self) -> str:
        """The same for the same body."""
        if len(self.body) <= LONGEST_MARK:
            return self.body
        return blake2b(self.body.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Record:
    """A decision as it is written down. Without a body the id was voided before it was used."""

    id: str
    decision: str
    body: str | None
    refusal: str | None = None

    @property
    def lines(self) -> Mapping[str, int]:
        """What it takes from the allotments."""
        if self.body is None or self.refusal is not None:
            return {}
        found: dict[str, int] = msgspec.json.decode(self.body)["lines"]
        return found


@dataclass(frozen=True, slots=True)
class Allotment:
    """How much of a SKU a lane was given, and how much of that is sold for certain."""

    sku: str
    quantity: int
    recorded: int
    is_open: bool

    @property
    def left(self) -> int:
        """What may still be sold."""
        return self.quantity - self.recorded


@dataclass(frozen=True, slots=True)
class Epoch:
    """A time in which the cache is trusted. Another token means another epoch."""

    number: int
    token: str
    allotments: Mapping[str, Allotment]

    def cache_lines(self, lines: Mapping[str, int]) -> dict[str, int]:
        """The lines that the cache decides."""
        return {
            sku: quantity
            for sku, quantity in lines.items()
            if sku in self.allotments and self.allotments[sku].is_open
        }


@dataclass(frozen=True, slots=True)
class HotStock:
    """A SKU in a hot lane: allotted = left + sold. `unsynced` is sold and not in the book yet."""

    lane: str
    sku: str
    allotted: int
    left: int
    sold: int
    unsynced: int
    is_open: bool


@dataclass(frozen=True, slots=True)
class HotState:
    """A hot lane as the book knows it."""

    lane: str
    cache: str
    epoch: int
    opened_at: int
    unsynced_batches: int
    skus: tuple[HotStock, ...]


def new_name() -> str:
    """A name for an epoch, a decision or a batch that nothing else has."""
    return token_hex(16)


def question_of(request: Deduct, lines: Mapping[str, int]) -> Question:
    """What the cache is asked for a request."""
    return Question(request.id, request.body, lines)


def request_of(record: Record) -> Deduct:
    """The request that was recorded."""
    assert record.body is not None
    said = msgspec.json.decode(record.body)
    return Deduct(record.id, said["lines"], said.get("hold"))


def sums_of(records: Iterable[Record]) -> dict[str, int]:
    """How much of each SKU they take, in the order of its bytes."""
    sums: dict[str, int] = {}
    for record in records:
        for sku, quantity in record.lines.items():
            sums[sku] = sums.get(sku, 0) + quantity
    return {sku: sums[sku] for sku in sorted(sums)}


def check_lane(given: object) -> str:
    """`given`, if it can be the name of a lane."""
    name = check_id(given, what="name")
    if len(name) > LONGEST_LANE:
        raise BadInput(f"name={name[:40]!r}... is too long; at most {LONGEST_LANE} characters")
    return name


def hot_test(given: Skus | None) -> Callable[[str], bool]:
    """Whether a SKU belongs to the lane; without `skus` whatever is allotted does."""
    if given is None:
        return lambda _sku: True
    if callable(given):
        return given
    if isinstance(given, str):
        raise BadInput(f"skus={given!r} is one sku; give a list of them, or a function")
    chosen = frozenset(check_id(sku, what="sku") for sku in given)
    return chosen.__contains__


def refill_of(given: Refill | None, sku: str) -> int:
    """How much is allotted when little of a SKU is left; 0: nothing."""
    if given is None:
        return 0
    return given if isinstance(given, int) else given.get(sku, 0)


def check_refill(given: Refill | None) -> Refill | None:
    """`given`, if it says how much is allotted."""
    if given is None:
        return None
    quantities = given.values() if isinstance(given, Mapping) else [given]
    for each in quantities:
        if isinstance(each, bool) or not isinstance(each, int) or not 0 < each <= MOST_ALLOTTED:
            raise BadInput(f"refill={given!r}: give whole numbers from 1 to {MOST_ALLOTTED:,}")
    return dict(given) if isinstance(given, Mapping) else given

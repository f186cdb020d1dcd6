"""What operators see in the ledger's lists: rows with their first lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from windlass.ledger.model.ledger import DeductionLine, DeductionStatus, Entry, Line, Movement
from windlass.view.field import Moment

T = TypeVar("T")


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
    """A return with its first lines; with a `refusal` nothing came back."""

    deduction: str
    id: str
    movement: Movement
    created_at: Moment
    refusal: dict[str, Any] | None
    lines: tuple[Line, ...]
    has_more_lines: bool


@dataclass(frozen=True)
class ListedEntry(Entry):
    """One change of what is available; in a list of one SKU, `balance` is what was left then."""

    balance: int | None = None


@dataclass(frozen=True)
class LedgerPlace:
    """A database that has a ledger; `shard` is what other calls take."""

    shard: str
    name: str

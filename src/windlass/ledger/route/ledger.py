"""The ledger's lists: stock, deductions, returns and entries.

A ledger lives in one database. Of an app with several, `shard` says which: its number, its name, or
its URL; unsaid, it is the first.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from fastapi import APIRouter, Query
from pydantic import BeforeValidator

from windlass.errors import BadInput
from windlass.ledger.http.server import StockView, stock_view
from windlass.ledger.model.ledger import DeductionStatus, Movement, Refusal
from windlass.ledger.store import list as ledger_list
from windlass.ledger.store.list import EntryPlace, Moment, ReturnPlace
from windlass.web.request import ReadyConsole
from windlass.web.view import STORABLE, View, many
from windlass.web.view import Moment as When

router = APIRouter(tags=["ledger"])

T = TypeVar("T", bound=NamedTuple)

# Each row has a small query for its lines.
MOST_LISTED = 100
LONGEST_CURSOR = 8_000

StatusText = Literal["held", "deducted", "refused", "voided", "lapsed"]
MovementText = Literal["restock", "adjust", "deduct", "return", "void", "lapse"]
Shard = Annotated[str | None, Query(max_length=1_000, pattern=STORABLE)]
Prefix = Annotated[str, Query(max_length=255, pattern=STORABLE)]
After = Annotated[str | None, Query(max_length=LONGEST_CURSOR, pattern=STORABLE)]
Limit = Annotated[int, Query(ge=1, le=MOST_LISTED)]


def _told(refusal: object) -> object:
    if isinstance(refusal, Refusal):
        return {"error": refusal.error, **refusal.facts}
    return refusal


RefusalOut = Annotated[dict[str, Any], BeforeValidator(_told)]


class Part(View):
    """Part of a list. `next` is the cursor of what follows; null at the end.

    A page may be short, or empty, and have a `next`: only so many rows are looked at in one call.
    """

    next: str | None
    looked_at: int


class StockPage(Part):
    """Stock, by SKU."""

    items: list[StockView]


class LineOut(View):
    """One SKU of a movement."""

    sku: str
    quantity: int


class DeductionLineOut(LineOut):
    """One SKU of a deduction, and how much of it has come back."""

    returned: int


class DeductionOut(View):
    """A deduction with its first lines; `refusal` is the error and its facts."""

    id: str
    status: Annotated[StatusText, BeforeValidator(str)]
    created_at: When
    hold_until: When | None
    confirmed_at: When | None
    refusal: RefusalOut | None
    lines: list[DeductionLineOut]
    has_more_lines: bool


class DeductionPage(Part):
    """Deductions, newest first; those that begin with a prefix, by their ids."""

    items: list[DeductionOut]


class ReturnOut(View):
    """A return with its first lines; with a `refusal` nothing came back."""

    deduction: str
    id: str
    movement: Annotated[MovementText, BeforeValidator(str)]
    created_at: When
    refusal: RefusalOut | None
    lines: list[LineOut]
    has_more_lines: bool


class ReturnPage(Part):
    """Returns, newest first."""

    items: list[ReturnOut]


class EntryOut(View):
    """One change of what is available; in a list of one SKU, `balance` is what there was then."""

    id: int
    sku: str
    quantity: int
    movement: Annotated[MovementText, BeforeValidator(str)]
    reference: str
    return_id: str | None
    created_at: When
    balance: int | None


class EntryPage(Part):
    """Entries, newest first."""

    items: list[EntryOut]


class LedgerPlace(View):
    """A database that has a ledger; `shard` is what other calls take."""

    shard: str
    name: str


@router.get("/ledgers")
def ledgers(console: ReadyConsole) -> list[LedgerPlace]:
    """The databases that have a ledger: those of the app."""
    return [
        LedgerPlace(shard=str(shard.index), name=shard.name) for shard in console.app.fleet.shards
    ]


@router.get("/stock")
def stock(
    console: ReadyConsole,
    shard: Shard = None,
    prefix: Prefix = "",
    sold_out: bool = False,
    after: Annotated[str, Query(max_length=255, pattern=STORABLE)] = "",
    limit: Limit = 50,
) -> StockPage:
    """Stock by SKU, of those that begin with `prefix`; `after` is the `next` of the page before."""
    found = console.ledgers.look(
        shard,
        partial(ledger_list.stocks, prefix=prefix, after=after, limit=limit, sold_out=sold_out),
    )
    items = [stock_view(row) for row in found.items]
    return StockPage(items=items, next=found.next, looked_at=found.looked_at)


@router.get("/deductions")
def deductions(
    console: ReadyConsole,
    shard: Shard = None,
    status: StatusText | None = None,
    prefix: Prefix = "",
    after: After = None,
    limit: Limit = 50,
) -> DeductionPage:
    """Deductions, newest first, or by id with a `prefix`; `after` is the `next` before."""
    found = console.ledgers.look(
        shard,
        partial(
            ledger_list.deductions,
            status=None if status is None else DeductionStatus[status.upper()],
            prefix=prefix,
            after=_place(after, Moment),
            limit=limit,
        ),
    )
    return DeductionPage(
        items=many(DeductionOut, found.items),
        next=_cursor(found.next),
        looked_at=found.looked_at,
    )


@router.get("/returns")
def returns(
    console: ReadyConsole,
    shard: Shard = None,
    deduction: Annotated[str | None, Query(min_length=1, max_length=255, pattern=STORABLE)] = None,
    after: After = None,
    limit: Limit = 50,
) -> ReturnPage:
    """Returns, newest first: of all deductions, or of one."""
    found = console.ledgers.look(
        shard,
        partial(ledger_list.returns, of=deduction, after=_place(after, ReturnPlace), limit=limit),
    )
    return ReturnPage(
        items=many(ReturnOut, found.items),
        next=_cursor(found.next),
        looked_at=found.looked_at,
    )


@router.get("/entries")
def entries(
    console: ReadyConsole,
    shard: Shard = None,
    sku: Annotated[str | None, Query(min_length=1, max_length=255, pattern=STORABLE)] = None,
    movement: MovementText | None = None,
    after: After = None,
    limit: Limit = 50,
) -> EntryPage:
    """Changes of what is available, newest first: of all SKUs, or of one."""
    found = console.ledgers.look(
        shard,
        partial(
            ledger_list.entries,
            sku=sku,
            movement=None if movement is None else Movement(movement),
            after=_place(after, EntryPlace),
            limit=limit,
        ),
    )
    return EntryPage(
        items=many(EntryOut, found.items),
        next=_cursor(found.next),
        looked_at=found.looked_at,
    )


def _cursor(place: tuple[Any, ...] | None) -> str | None:
    return None if place is None else msgspec.json.encode(place).decode()


def _place(cursor: str | None, kind: type[T]) -> T | None:
    """The place that `_cursor` made a text of."""
    if cursor is None:
        return None
    try:
        place = msgspec.json.decode(cursor.encode(), type=kind)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        raise BadInput(f"after={cursor[:100]!r} is not the `next` of a page") from None
    return place

"""The ledger's lists: stock, deductions, returns and entries.

A ledger lives in one database. Of an app with several, `shard` says which: its number, its name, or
its URL; without it, it is the first.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from fastapi import APIRouter, Query

from windlass.ledger.model.ledger import (
    DeductionStatus,
    LedgerPart,
    LedgerPlace,
    ListedDeduction,
    ListedEntry,
    ListedReturn,
    Movement,
    Stock,
)
from windlass.ledger.route.api import StatusName
from windlass.web.request import ReadyConsole
from windlass.web.view import STORABLE, View, answer

router = APIRouter(tags=["ledger"])

T = TypeVar("T")

# Each row has a small query for its lines.
MOST_LISTED = 100
LONGEST_CURSOR = 8_000

Shard = Annotated[str | None, Query(max_length=1_000, pattern=STORABLE)]
Prefix = Annotated[str, Query(max_length=255, pattern=STORABLE)]
Name = Annotated[str | None, Query(min_length=1, max_length=255, pattern=STORABLE)]
After = Annotated[str | None, Query(max_length=LONGEST_CURSOR, pattern=STORABLE)]
Limit = Annotated[int, Query(ge=1, le=MOST_LISTED)]


class LedgerPage(View, Generic[T]):
    __doc__ = LedgerPart.__doc__

    items: list[T]
    next: str | None
    looked_at: int


def _page(view: type) -> Any:
    return LedgerPage.__class_getitem__(answer(view))


@router.get("/ledgers", response_model=answer(list[LedgerPlace]))
def ledgers(console: ReadyConsole) -> list[LedgerPlace]:
    """The databases that have a ledger: those of the app."""
    return console.ledgers.places()


@router.get("/stock", response_model=_page(Stock))
def stock(
    console: ReadyConsole,
    shard: Shard = None,
    prefix: Prefix = "",
    sold_out: bool = False,
    after: Prefix = "",
    limit: Limit = 50,
) -> LedgerPart[Stock]:
    """Stock by SKU, of those that begin with `prefix`; `after` is the `next` of the page before."""
    return console.ledgers.stocks(shard, prefix=prefix, after=after, limit=limit, sold_out=sold_out)


@router.get("/deductions", response_model=_page(ListedDeduction))
def deductions(
    console: ReadyConsole,
    shard: Shard = None,
    status: StatusName | None = None,
    prefix: Prefix = "",
    after: After = None,
    limit: Limit = 50,
) -> LedgerPart[ListedDeduction]:
    """Deductions, newest first, or by id with a `prefix`; `after` is the `next` before."""
    of = None if status is None else DeductionStatus[status.upper()]
    return console.ledgers.deductions(shard, status=of, prefix=prefix, after=after, limit=limit)


@router.get("/returns", response_model=_page(ListedReturn))
def returns(
    console: ReadyConsole,
    shard: Shard = None,
    deduction: Name = None,
    after: After = None,
    limit: Limit = 50,
) -> LedgerPart[ListedReturn]:
    """Returns, newest first: of all deductions, or of one."""
    return console.ledgers.returns(shard, deduction=deduction, after=after, limit=limit)


@router.get("/entries", response_model=_page(ListedEntry))
def entries(
    console: ReadyConsole,
    shard: Shard = None,
    sku: Name = None,
    movement: Movement | None = None,
    after: After = None,
    limit: Limit = 50,
) -> LedgerPart[ListedEntry]:
    """Changes of what is available, newest first: of all SKUs, or of one."""
    return console.ledgers.entries(shard, sku=sku, movement=movement, after=after, limit=limit)

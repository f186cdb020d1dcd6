"""The ledger's own API, behind the console's gate: what changes something is in the audit log.

Paths, bodies and answers are those of `windlass.ledger.http`, below /api/ledger.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel

from windlass.errors import NotPossible
from windlass.ledger.http.server import (
    AdjustmentBody,
    AuditView,
    ConfirmationView,
    DeductionBody,
    DeductionView,
    EntryView,
    MovementBody,
    ReceiptView,
    ReturnView,
    StockView,
    deduction_view,
    entry_view,
    pairs,
    receipt_view,
    return_view,
    stock_view,
    told,
)
from windlass.ledger.route.ledger import Shard
from windlass.watch.audit.model import Action
from windlass.web.problem import problems
from windlass.web.request import DeductionId, ReadyConsole, RequestLog, Sku
from windlass.web.view import STORABLE

router = APIRouter(prefix="/ledger", tags=["ledger"])

# The log tells the first lines of a movement; the ledger has all of them.
LINES_LOGGED = 50

Limit = Annotated[int, Query(ge=1, le=10_000)]


def _made(*codes: int, view: type[BaseModel]) -> dict[str, Any]:
    """What a movement answers: 201, 200 when it was made before, or a problem."""
    again = {"model": view, "description": "It was made before; this is the same answer."}
    return {"status_code": 201, "responses": {200: again, **problems(*codes)}}


@router.post("/restocks", **_made(409, view=ReceiptView))
def restock(
    body: MovementBody,
    response: Response,
    console: ReadyConsole,
    log: RequestLog,
    shard: Shard = None,
) -> ReceiptView:
    """Goods came in, under an id of the caller's."""
    with log.record(Action.LEDGER_RESTOCK, body.id, **_logged(body, shard)) as entry:
        made = told(response, console.ledgers.of(shard).restock(body.id, pairs(body)))
        entry.says(_said(f"{_sum(body)} came in", made.replayed))
    return receipt_view(made)


@router.post("/adjustments", **_made(404, 409, view=ReceiptView))
def adjust(
    body: AdjustmentBody,
    response: Response,
    console: ReadyConsole,
    log: RequestLog,
    shard: Shard = None,
) -> ReceiptView:
    """A count found more, or less: quantities have a sign."""
    with log.record(
        Action.LEDGER_ADJUST, body.id, reason=body.reason, **_logged(body, shard)
    ) as entry:
        ledger = console.ledgers.of(shard)
        made = told(response, ledger.adjust(body.id, pairs(body), reason=body.reason))
        entry.says(_said(f"the stock of {len(made.lines):,} SKUs is adjusted", made.replayed))
    return receipt_view(made)


@router.post("/deductions", **_made(404, 409, view=DeductionView))
def deduct(
    body: DeductionBody,
    response: Response,
    console: ReadyConsole,
    log: RequestLog,
    shard: Shard = None,
) -> DeductionView:
    """Goods go out, all lines or none; with a hold, until it lapses."""
    with log.record(Action.LEDGER_DEDUCT, body.id, hold=body.hold, **_logged(body, shard)) as entry:
        ledger = console.ledgers.of(shard)
        made = told(response, ledger.deduct(body.id, pairs(body), hold=body.hold))
        entry.says(_said(f"{_sum(body)} went out", made.replayed))
    return deduction_view(made)


@router.post("/deductions/{id}/returns", **_made(404, 409, view=ReturnView))
def give_back(
    of: DeductionId,
    body: MovementBody,
    response: Response,
    console: ReadyConsole,
    log: RequestLog,
    shard: Shard = None,
) -> ReturnView:
    """A part of a deduction comes back, under an id of its own."""
    with log.record(
        Action.LEDGER_GIVE_BACK, of, return_id=body.id, **_logged(body, shard)
    ) as entry:
        made = told(response, console.ledgers.of(shard).give_back(of, body.id, pairs(body)))
        entry.says(_said(f"{_sum(body)} of {of} came back", made.replayed))
    return return_view(made)


@router.post("/deductions/{id}/void", **_made(view=ReturnView))
def void(
    of: DeductionId, response: Response, console: ReadyConsole, log: RequestLog, shard: Shard = None
) -> ReturnView:
    """Whatever is left of a deduction comes back; one that is unknown can never come to be."""
    with log.record(Action.LEDGER_VOID, of, shard=shard) as entry:
        made = told(response, console.ledgers.of(shard).void(of))
        total = sum(line.quantity for line in made.lines)
        entry.says(_said(f"{of} is voided, {total:,} came back", made.replayed))
    return return_view(made)


@router.post("/deductions/{id}/confirm", **_made(404, view=ConfirmationView))
def confirm(
    of: DeductionId, response: Response, console: ReadyConsole, log: RequestLog, shard: Shard = None
) -> ConfirmationView:
    """What is held by a deduction stays deducted."""
    with log.record(Action.LEDGER_CONFIRM, of, shard=shard) as entry:
        made = told(response, console.ledgers.of(shard).confirm(of))
        entry.says(_said(f"{of} is confirmed", made.replayed))
    return ConfirmationView(deduction=made.deduction, confirmed_at=made.confirmed_at)


@router.get("/deductions/{id}", responses=problems(404))
def deduction(of: DeductionId, console: ReadyConsole, shard: Shard = None) -> DeductionView:
    """A deduction as it is now: its lines, and how much of each has come back."""
    return deduction_view(console.ledgers.of(shard).deduction(of))


@router.get("/deductions/{id}/returns", responses=problems(404))
def returns(of: DeductionId, console: ReadyConsole, shard: Shard = None) -> list[ReturnView]:
    """What was given back of a deduction, in order."""
    ledger = console.ledgers.of(shard)
    found = ledger.returns(of)
    if not found:
        # Unknown is said so, and not shown as empty.
        ledger.deduction(of)
    return [return_view(row) for row in found]


@router.get("/stocks")
def stocks(
    console: ReadyConsole,
    shard: Shard = None,
    after: Annotated[str, Query(max_length=255, pattern=STORABLE)] = "",
    limit: Limit = 1_000,
) -> list[StockView]:
    """How much there is, by SKU, of those after `after`."""
    return [stock_view(row) for row in console.ledgers.of(shard).stocks(after=after, limit=limit)]


@router.get("/stocks/{sku}", responses=problems(404))
def stock(sku: Sku, console: ReadyConsole, shard: Shard = None) -> StockView:
    """How much there is of a SKU."""
    return stock_view(console.ledgers.of(shard).stock(sku))


@router.get("/stocks/{sku}/entries", responses=problems(404))
def entries(
    sku: Sku,
    console: ReadyConsole,
    shard: Shard = None,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Limit = 1_000,
) -> list[EntryView]:
    """Every change of a SKU, oldest first, those after the entry `after`."""
    ledger = console.ledgers.of(shard)
    found = ledger.entries(sku, after=after, limit=limit)
    if not found:
        ledger.stock(sku)
    return [entry_view(row) for row in found]


@router.get("/audit", responses=problems(409))
def audit(console: ReadyConsole, shard: Shard = None) -> AuditView:
    """Check that every rule of the ledger holds for every row. It reads all of them."""
    found = console.ledgers.audit(shard)
    if found is None:
        raise NotPossible("an audit is under way already; wait until it has ended")
    return AuditView(ok=found.ok, problems=list(found.problems))


def _logged(body: MovementBody | AdjustmentBody, shard: str | None) -> dict[str, Any]:
    """What the log tells of a movement."""
    shown = {"lines": pairs(body)[:LINES_LOGGED], "shard": shard}
    more = len(body.lines) - LINES_LOGGED
    return shown | ({"more_lines": more} if more > 0 else {})


def _sum(body: MovementBody) -> str:
    return f"{sum(line.quantity for line in body.lines):,}"


def _said(what: str, replayed: bool) -> str:
    return f"{what}; it was done before" if replayed else what

"""The application that serves a ledger over HTTP.

A first answer is 201, the same answer again 200. Errors are problem+json: 404 for what is unknown,
409 for an id that was used for something else, 422 for what is refused or malformed, with the facts
as fields. It checks no identity: put it behind something that does.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import FastAPI, Path, Query, Response
from pydantic import BeforeValidator

from windlass.ledger.http.wire import RawPath, StrictRoute
from windlass.ledger.ledger import Ledger
from windlass.ledger.model.ledger import Confirmation, Deduction, Entry, Receipt, Return, Stock
from windlass.ledger.route import answer
from windlass.ledger.route.answer import made, with_status
from windlass.ledger.route.body import (
    ANY_TEXT,
    AdjustmentBody,
    DeductionBody,
    MovementBody,
    pairs,
)
from windlass.ledger.route.problem import (
    Api,
    IdConflictProblem,
    InvalidQuantityProblem,
    MalformedProblem,
    NotHeldProblem,
    OutOfStockProblem,
    OverReturnProblem,
    Problems,
    UnknownDeductionProblem,
    UnknownSkuProblem,
    described,
)
from windlass.value.task import LONGEST_KEY
from windlass.view.audit import Audit


def create(ledger: Ledger, *, audit: bool = True) -> FastAPI:
    """The application that serves `ledger`.

    An audit reads every row: leave it out, `audit=False`, where callers are not trusted with that.
    """
    api = Api(
        title="Windlass ledger",
        summary="Stock that is deducted and given back, each movement once.",
        version="1",
    )
    api.router.route_class = StrictRoute
    _add_movements(api, ledger)
    _add_views(api, ledger)
    if audit:
        _add_audit(api, ledger)
    api.add_middleware(RawPath)
    return api


def _in_path(raw: str) -> str:
    """A part of the path as it was meant; it may have any character in it, also a slash."""
    try:
        return unquote(raw, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None


def _part(what: str) -> Any:
    return Path(min_length=1, max_length=LONGEST_KEY, description=f"{what} {ANY_TEXT}")


OfDeduction = Annotated[str, BeforeValidator(_in_path), _part("The id of a deduction.")]
OfSku = Annotated[str, BeforeValidator(_in_path), _part("A SKU.")]
AfterSku = Annotated[str, Query(max_length=LONGEST_KEY, description="Only SKUs after this one.")]
AfterEntry = Annotated[int, Query(ge=0, le=2**62, description="Only entries after this one.")]
Limit = Annotated[int, Query(ge=1, le=10_000, description="At most this many.")]

UNREADABLE: Problems = {400: (), 413: ()}
QUANTITIES = (InvalidQuantityProblem, MalformedProblem)
RESTOCKED: Problems = UNREADABLE | {409: (IdConflictProblem,), 422: QUANTITIES}
DEDUCTED: Problems = RESTOCKED | {
    404: (UnknownSkuProblem,),
    422: (OutOfStockProblem, *QUANTITIES),
}
RETURNED: Problems = RESTOCKED | {
    404: (UnknownDeductionProblem,),
    422: (OverReturnProblem, *QUANTITIES),
}
CONFIRMED: Problems = {
    404: (UnknownDeductionProblem,),
    422: (NotHeldProblem, MalformedProblem),
}
NO_DEDUCTION = described({404: (UnknownDeductionProblem,)})
NO_SKU = described({404: (UnknownSkuProblem,)})


def _add_movements(api: FastAPI, ledger: Ledger) -> None:
    @api.post("/restocks", **made(answer.RECEIPT, described(RESTOCKED)))
    async def restock(body: MovementBody, response: Response) -> Receipt:
        return with_status(response, await ledger.arestock(body.id, pairs(body)))

    @api.post("/adjustments", **made(answer.RECEIPT, described(DEDUCTED)))
    async def adjust(body: AdjustmentBody, response: Response) -> Receipt:
        adjusted = await ledger.aadjust(body.id, pairs(body), reason=body.reason)
        return with_status(response, adjusted)

    @api.post("/deductions", **made(answer.DEDUCTION, described(DEDUCTED)))
    async def deduct(body: DeductionBody, response: Response) -> Deduction:
        return with_status(response, await ledger.adeduct(body.id, pairs(body), hold=body.hold))

    @api.post("/deductions/{id}/returns", **made(answer.RETURN, described(RETURNED)))
    async def give_back(id: OfDeduction, body: MovementBody, response: Response) -> Return:
        return with_status(response, await ledger.agive_back(id, body.id, pairs(body)))

    @api.post("/deductions/{id}/void", **made(answer.RETURN, {}))
    async def void(id: OfDeduction, response: Response) -> Return:
        return with_status(response, await ledger.avoid(id))

    @api.post("/deductions/{id}/confirm", **made(answer.CONFIRMATION, described(CONFIRMED)))
    async def confirm(id: OfDeduction, response: Response) -> Confirmation:
        return with_status(response, await ledger.aconfirm(id))


def _add_views(api: FastAPI, ledger: Ledger) -> None:
    @api.get("/deductions/{id}", response_model=answer.DEDUCTION, responses=NO_DEDUCTION)
    async def deduction(id: OfDeduction) -> Deduction:
        return await ledger.adeduction(id)

    @api.get("/deductions/{id}/returns", response_model=answer.RETURNS, responses=NO_DEDUCTION)
    async def returns(id: OfDeduction) -> list[Return]:
        found = await ledger.areturns(id)
        if not found:
            # Raises an error if the deduction is unknown.
            await ledger.adeduction(id)
        return found

    @api.get("/stocks", response_model=answer.STOCKS)
    async def stocks(after: AfterSku = "", limit: Limit = 1_000) -> list[Stock]:
        return await ledger.astocks(after=after, limit=limit)

    @api.get("/stocks/{sku}", response_model=answer.STOCK, responses=NO_SKU)
    async def stock(sku: OfSku) -> Stock:
        return await ledger.astock(sku)

    @api.get("/stocks/{sku}/entries", response_model=answer.ENTRIES, responses=NO_SKU)
    async def entries(sku: OfSku, after: AfterEntry = 0, limit: Limit = 1_000) -> list[Entry]:
        found = await ledger.aentries(sku, after=after, limit=limit)
        if not found:
            await ledger.astock(sku)
        return found


def _add_audit(api: FastAPI, ledger: Ledger) -> None:
    @api.get("/audit", response_model=answer.AUDIT)
    async def audit() -> Audit:
        return await ledger.aaudit()

"""The ledger over HTTP: an ASGI application to serve alone or to mount in another.

A first answer is 201, the same answer again 200. Errors are problem+json: 404 for what is unknown,
409 for an id that was used for something else, 422 for what is refused or malformed, with the facts
as fields. It asks nobody who they are: put it behind what does.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import unquote

from fastapi import FastAPI, Path, Query, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, TypeAdapter

from windlass.ledger.http.problem import (
    Api,
    IdConflictProblem,
    InvalidQuantityProblem,
    MalformedProblem,
    NotHeldProblem,
    OutOfStockProblem,
    OverReturnProblem,
    Problems,
    StatusName,
    UnknownDeductionProblem,
    UnknownSkuProblem,
    described,
)
from windlass.ledger.http.wire import RawPath, StrictRoute
from windlass.ledger.ledger import Ledger
from windlass.ledger.model.ledger import (
    LONGEST_REASON,
    MOST_BYTES,
    MOST_LINES,
    MOST_OF_A_SKU,
    Confirmation,
    Deduction,
    DeductionStatus,
    Entry,
    Movement,
    Receipt,
    Return,
    Stock,
)
from windlass.value.task import LONGEST_KEY, RESERVED

T = TypeVar("T", Receipt, Deduction, Return, Confirmation)

ANY_TEXT = (
    f"Any text of at most {LONGEST_KEY} characters and {MOST_BYTES} bytes in UTF-8 "
    f"that does not begin with `{RESERVED}`."
)
Id = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_KEY, pattern=r"^[^\x00]+$", description=ANY_TEXT),
]
Quantity = Annotated[StrictInt, Field(ge=1, le=MOST_OF_A_SKU)]
Signed = Annotated[StrictInt, Field(ge=-MOST_OF_A_SKU, le=MOST_OF_A_SKU)]


class Body(BaseModel):
    """What a request may have in it, and nothing else."""

    model_config = ConfigDict(extra="forbid")


class LineBody(Body):
    """One SKU and how many of it."""

    sku: Id
    quantity: Quantity


class AdjustLineBody(Body):
    """One SKU and how many more, or less, there are of it."""

    sku: Id
    quantity: Signed


Lines = Annotated[list[LineBody], Field(min_length=1, max_length=MOST_LINES)]


class MovementBody(Body):
    """Lines under an id of the caller's."""

    id: Id
    lines: Lines


class DeductionBody(MovementBody):
    """A deduction; with a hold, such as "15m", it comes back unless it is confirmed."""

    hold: Annotated[str, Field(examples=["15m"])] | None = None


class AdjustmentBody(Body):
    """What a count found."""

    id: Id
    lines: Annotated[list[AdjustLineBody], Field(min_length=1, max_length=MOST_LINES)]
    reason: Annotated[str, Field(max_length=LONGEST_REASON)] = ""


class LineView(BaseModel):
    """One SKU of a movement."""

    sku: str
    quantity: int


class DeductionLineView(LineView):
    """One SKU of a deduction, and how much of it has come back."""

    returned: int


class OutOfStockView(BaseModel):
    """A deduction was refused: less was available than wanted."""

    error: Literal["OutOfStock"]
    sku: str
    wanted: int
    available: int


class UnknownSkuView(BaseModel):
    """A deduction was refused: none of it ever came in."""

    error: Literal["UnknownSku"]
    sku: str


RefusalView = Annotated[OutOfStockView | UnknownSkuView, Field(discriminator="error")]


class DeductionView(BaseModel):
    """A deduction."""

    id: str
    status: StatusName
    lines: list[DeductionLineView]
    created_at: datetime
    hold_until: datetime | None
    confirmed_at: datetime | None
    refusal: RefusalView | None


STATUS_NAMES: dict[DeductionStatus, StatusName] = {
    DeductionStatus.HELD: "held",
    DeductionStatus.DEDUCTED: "deducted",
    DeductionStatus.REFUSED: "refused",
    DeductionStatus.VOIDED: "voided",
    DeductionStatus.LAPSED: "lapsed",
}
REFUSAL = TypeAdapter[OutOfStockView | UnknownSkuView](RefusalView)


class ReturnView(BaseModel):
    """What was given back of a deduction."""

    deduction: str
    id: str
    lines: list[LineView]
    created_at: datetime


class ReceiptView(BaseModel):
    """A restock or an adjustment."""

    id: str
    movement: Literal["restock", "adjust"]
    lines: list[LineView]
    created_at: datetime


class ConfirmationView(BaseModel):
    """A deduction that is for good."""

    deduction: str
    confirmed_at: datetime


class StockView(BaseModel):
    """How much there is of a SKU."""

    sku: str
    available: int
    received: int
    deducted: int
    returned: int


class EntryView(BaseModel):
    """One change of what is available."""

    id: int
    sku: str
    quantity: int
    movement: Movement
    reference: str
    return_id: str | None
    created_at: datetime


class AuditView(BaseModel):
    """What an audit found."""

    ok: bool
    problems: list[str]


def create(ledger: Ledger, *, audit: bool = True) -> FastAPI:
    """The application that serves `ledger`.

    An audit reads every row: leave it out, `audit=False`, where callers are not trusted with that.
    """
    api = Api(
        title="Windlass ledger",
        summary="Stock that is deducted and given back, each movement once and for ever.",
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


OfDeduction = Annotated[
    str,
    BeforeValidator(_in_path),
    Path(min_length=1, max_length=LONGEST_KEY, description=f"The id of a deduction. {ANY_TEXT}"),
]
OfSku = Annotated[
    str,
    BeforeValidator(_in_path),
    Path(min_length=1, max_length=LONGEST_KEY, description=f"A SKU. {ANY_TEXT}"),
]
AfterSku = Annotated[str, Query(max_length=LONGEST_KEY, description="Only SKUs after this one.")]
AfterEntry = Annotated[int, Query(ge=0, le=2**62, description="Only entries after this one.")]
Limit = Annotated[int, Query(ge=1, le=10_000, description="So many at most.")]

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


def _made(problems: Problems, view: type[BaseModel]) -> dict[str, Any]:
    """What a movement answers: 201, 200 when it was made before, or a problem."""
    return {
        "status_code": 201,
        "response_model": view,
        "responses": {
            200: {"model": view, "description": "It was made before; this is the same answer."},
            **described(problems),
        },
    }


def _add_movements(api: FastAPI, ledger: Ledger) -> None:
    @api.post("/restocks", **_made(RESTOCKED, ReceiptView))
    async def restock(body: MovementBody, response: Response) -> ReceiptView:
        made = await ledger.arestock(body.id, pairs(body))
        return receipt_view(told(response, made))

    @api.post("/adjustments", **_made(DEDUCTED, ReceiptView))
    async def adjust(body: AdjustmentBody, response: Response) -> ReceiptView:
        made = await ledger.aadjust(body.id, pairs(body), reason=body.reason)
        return receipt_view(told(response, made))

    @api.post("/deductions", **_made(DEDUCTED, DeductionView))
    async def deduct(body: DeductionBody, response: Response) -> DeductionView:
        made = await ledger.adeduct(body.id, pairs(body), hold=body.hold)
        return deduction_view(told(response, made))

    @api.post("/deductions/{id}/returns", **_made(RETURNED, ReturnView))
    async def give_back(id: OfDeduction, body: MovementBody, response: Response) -> ReturnView:
        made = await ledger.agive_back(id, body.id, pairs(body))
        return return_view(told(response, made))

    @api.post("/deductions/{id}/void", **_made({}, ReturnView))
    async def void(id: OfDeduction, response: Response) -> ReturnView:
        return return_view(told(response, await ledger.avoid(id)))

    @api.post("/deductions/{id}/confirm", **_made(CONFIRMED, ConfirmationView))
    async def confirm(id: OfDeduction, response: Response) -> ConfirmationView:
        made = told(response, await ledger.aconfirm(id))
        return ConfirmationView(deduction=made.deduction, confirmed_at=made.confirmed_at)


def _add_views(api: FastAPI, ledger: Ledger) -> None:
    @api.get("/deductions/{id}", responses=described({404: (UnknownDeductionProblem,)}))
    async def deduction(id: OfDeduction) -> DeductionView:
        return deduction_view(await ledger.adeduction(id))

    @api.get("/deductions/{id}/returns", responses=described({404: (UnknownDeductionProblem,)}))
    async def returns(id: OfDeduction) -> list[ReturnView]:
        found = await ledger.areturns(id)
        if not found:
            # Unknown is said so, and not shown as empty.
            await ledger.adeduction(id)
        return [return_view(row) for row in found]

    @api.get("/stocks")
    async def stocks(after: AfterSku = "", limit: Limit = 1_000) -> list[StockView]:
        return [stock_view(row) for row in await ledger.astocks(after=after, limit=limit)]

    @api.get("/stocks/{sku}", responses=described({404: (UnknownSkuProblem,)}))
    async def stock(sku: OfSku) -> StockView:
        return stock_view(await ledger.astock(sku))

    @api.get("/stocks/{sku}/entries", responses=described({404: (UnknownSkuProblem,)}))
    async def entries(sku: OfSku, after: AfterEntry = 0, limit: Limit = 1_000) -> list[EntryView]:
        found = await ledger.aentries(sku, after=after, limit=limit)
        if not found:
            await ledger.astock(sku)
        return [entry_view(row) for row in found]


def _add_audit(api: FastAPI, ledger: Ledger) -> None:
    @api.get("/audit")
    async def audit() -> AuditView:
        found = await ledger.aaudit()
        return AuditView(ok=found.ok, problems=list(found.problems))


def pairs(body: MovementBody | AdjustmentBody) -> list[tuple[str, int]]:
    return [(line.sku, line.quantity) for line in body.lines]


def told(response: Response, made: T) -> T:
    if made.replayed:
        response.status_code = 200
    return made


def deduction_view(row: Deduction) -> DeductionView:
    refusal = row.refusal
    told = None if refusal is None else {"error": refusal.error, **refusal.facts}
    return DeductionView(
        id=row.id,
        status=STATUS_NAMES[row.status],
        lines=[
            DeductionLineView(sku=line.sku, quantity=line.quantity, returned=line.returned)
            for line in row.lines
        ],
        created_at=row.created_at,
        hold_until=row.hold_until,
        confirmed_at=row.confirmed_at,
        refusal=None if told is None else REFUSAL.validate_python(told),
    )


def return_view(row: Return) -> ReturnView:
    return ReturnView(
        deduction=row.deduction,
        id=row.id,
        lines=[LineView(sku=line.sku, quantity=line.quantity) for line in row.lines],
        created_at=row.created_at,
    )


def receipt_view(row: Receipt) -> ReceiptView:
    return ReceiptView(
        id=row.id,
        movement="restock" if row.movement is Movement.RESTOCK else "adjust",
        lines=[LineView(sku=line.sku, quantity=line.quantity) for line in row.lines],
        created_at=row.created_at,
    )


def stock_view(row: Stock) -> StockView:
    return StockView(
        sku=row.sku,
        available=row.available,
        received=row.received,
        deducted=row.deducted,
        returned=row.returned,
    )


def entry_view(row: Entry) -> EntryView:
    return EntryView(
        id=row.id,
        sku=row.sku,
        quantity=row.quantity,
        movement=row.movement,
        reference=row.reference,
        return_id=row.return_id,
        created_at=row.created_at,
    )

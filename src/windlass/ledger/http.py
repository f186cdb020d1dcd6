"""The ledger over HTTP: an ASGI application to serve alone or to mount in another.

A first answer is 201, the same answer again 200. Errors are problem+json: 404 for what is unknown,
409 for an id that was used for something else, 422 for what is refused or malformed, with the facts
as fields. It asks nobody who they are: put it behind what does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from datetime import datetime
from typing import Annotated, Any, TypeVar
from urllib.parse import quote, unquote

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, StrictInt
from starlette.exceptions import HTTPException

from windlass.errors import (
    BadInput,
    DatabaseUnavailable,
    IdConflict,
    InvalidQuantity,
    Refused,
    UnknownDeduction,
    UnknownSku,
    WindlassError,
)
from windlass.ledger.ledger import Ledger
from windlass.model.ledger import (
    LONGEST_REASON,
    MOST_LINES,
    MOST_OF_A_SKU,
    Confirmation,
    Deduction,
    Entry,
    Receipt,
    Return,
    Stock,
)
from windlass.model.task import LONGEST_KEY

PROBLEM = "application/problem+json"
T = TypeVar("T", Receipt, Deduction, Return, Confirmation)
Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]

Id = Annotated[str, Field(min_length=1, max_length=LONGEST_KEY, pattern=r"^[^\x00]+$")]
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


class DeductionView(BaseModel):
    """A deduction."""

    id: str
    status: str
    lines: list[DeductionLineView]
    created_at: datetime
    hold_until: datetime | None
    confirmed_at: datetime | None
    refusal: dict[str, Any] | None


class ReturnView(BaseModel):
    """What was given back of a deduction."""

    deduction: str
    id: str
    lines: list[LineView]
    created_at: datetime


class ReceiptView(BaseModel):
    """A restock or an adjustment."""

    id: str
    movement: str
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
    movement: str
    reference: str
    return_id: str | None
    created_at: datetime


class AuditView(BaseModel):
    """What an audit found."""

    ok: bool
    problems: list[str]


class Problem(BaseModel):
    """What went wrong; the facts of a refusal are fields beside these."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str


def create(ledger: Ledger) -> FastAPI:
    """The application that serves `ledger`."""
    api = FastAPI(
        title="Windlass ledger",
        summary="Stock that is deducted and given back, each movement once and for ever.",
        version="1",
        responses=_problems(422, 503),
    )
    _add_movements(api, ledger)
    _add_views(api, ledger)
    api.add_exception_handler(WindlassError, _on_error)
    api.add_exception_handler(RequestValidationError, _on_malformed)
    api.add_exception_handler(HTTPException, _on_http)
    api.add_middleware(_RawPath)
    return api


OfDeduction = Annotated[str, Path(min_length=1)]
OfSku = Annotated[str, Path(min_length=1)]
Limit = Annotated[int, Query(ge=1, le=10_000)]


def _problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    words = {
        400: "The body cannot be read.",
        404: "It is unknown.",
        409: "The id was used for something else.",
        422: "It is refused, or malformed; the facts are fields.",
        503: "The database does not answer.",
    }
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        code: {"description": words[code], "model": Problem, "content": {PROBLEM: schema}}
        for code in codes
    }


def _made(*codes: int, view: type[BaseModel]) -> dict[str, Any]:
    """What a movement answers: 201, 200 when it was made before, or a problem."""
    return {
        "status_code": 201,
        "response_model": view,
        "responses": {
            200: {"model": view, "description": "It was made before; this is the same answer."},
            **_problems(*codes),
        },
    }


def _add_movements(api: FastAPI, ledger: Ledger) -> None:
    @api.post("/restocks", **_made(400, 409, view=ReceiptView))
    async def restock(body: MovementBody, response: Response) -> ReceiptView:
        made = await ledger.arestock(body.id, pairs(body))
        return receipt_view(told(response, made))

    @api.post("/adjustments", **_made(400, 404, 409, view=ReceiptView))
    async def adjust(body: AdjustmentBody, response: Response) -> ReceiptView:
        made = await ledger.aadjust(body.id, pairs(body), reason=body.reason)
        return receipt_view(told(response, made))

    @api.post("/deductions", **_made(400, 404, 409, view=DeductionView))
    async def deduct(body: DeductionBody, response: Response) -> DeductionView:
        made = await ledger.adeduct(body.id, pairs(body), hold=body.hold)
        return deduction_view(told(response, made))

    @api.post("/deductions/{id}/returns", **_made(400, 404, 409, view=ReturnView))
    async def give_back(id: OfDeduction, body: MovementBody, response: Response) -> ReturnView:
        made = await ledger.agive_back(_decoded(id), body.id, pairs(body))
        return return_view(told(response, made))

    @api.post("/deductions/{id}/void", **_made(view=ReturnView))
    async def void(id: OfDeduction, response: Response) -> ReturnView:
        return return_view(told(response, await ledger.avoid(_decoded(id))))

    @api.post("/deductions/{id}/confirm", **_made(404, view=ConfirmationView))
    async def confirm(id: OfDeduction, response: Response) -> ConfirmationView:
        made = told(response, await ledger.aconfirm(_decoded(id)))
        return ConfirmationView(deduction=made.deduction, confirmed_at=made.confirmed_at)


def _add_views(api: FastAPI, ledger: Ledger) -> None:
    @api.get("/deductions/{id}", responses=_problems(404))
    async def deduction(id: OfDeduction) -> DeductionView:
        return deduction_view(await ledger.adeduction(_decoded(id)))

    @api.get("/deductions/{id}/returns")
    async def returns(id: OfDeduction) -> list[ReturnView]:
        return [return_view(row) for row in await ledger.areturns(_decoded(id))]

    @api.get("/stocks")
    async def stocks(after: str = "", limit: Limit = 1_000) -> list[StockView]:
        return [stock_view(row) for row in await ledger.astocks(after=after, limit=limit)]

    @api.get("/stocks/{sku}", responses=_problems(404))
    async def stock(sku: OfSku) -> StockView:
        return stock_view(await ledger.astock(_decoded(sku)))

    @api.get("/stocks/{sku}/entries")
    async def entries(
        sku: OfSku, after: Annotated[int, Query(ge=0, le=2**62)] = 0, limit: Limit = 1_000
    ) -> list[EntryView]:
        return [
            entry_view(row)
            for row in await ledger.aentries(_decoded(sku), after=after, limit=limit)
        ]

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
    return DeductionView(
        id=row.id,
        status=str(row.status),
        lines=[
            DeductionLineView(sku=line.sku, quantity=line.quantity, returned=line.returned)
            for line in row.lines
        ],
        created_at=row.created_at,
        hold_until=row.hold_until,
        confirmed_at=row.confirmed_at,
        refusal=None if refusal is None else {"error": refusal.error, **refusal.facts},
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
        movement=row.movement,
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


async def _on_error(_request: Request, problem: Exception) -> JSONResponse:
    match problem:
        case UnknownDeduction() | UnknownSku():
            return _problem(404, problem, problem.facts)
        case Refused():
            return _problem(422, problem, problem.facts)
        case IdConflict():
            return _problem(409, problem, {"id": problem.id, "difference": problem.difference})
        case InvalidQuantity():
            return _problem(422, problem, {"sku": problem.sku, "quantity": problem.quantity})
        case BadInput():
            return _problem(422, problem)
        case DatabaseUnavailable():
            return _problem(503, problem)
    return _problem(500, problem)


async def _on_malformed(_request: Request, problem: Exception) -> JSONResponse:
    assert isinstance(problem, RequestValidationError)
    found = [
        {"where": ".".join(map(str, error["loc"])), "what": error["msg"]}
        for error in problem.errors()
    ]
    said = "; ".join(f"{error['where']}: {error['what']}" for error in found[:3])
    return _problem_of("Malformed", 422, said, {"errors": found})


async def _on_http(_request: Request, problem: Exception) -> JSONResponse:
    assert isinstance(problem, HTTPException)
    answer = _problem_of("HttpError", problem.status_code, str(problem.detail))
    answer.headers.update(problem.headers or {})
    return answer


def _problem(
    status: int, problem: Exception, facts: Mapping[str, Any] | None = None
) -> JSONResponse:
    return _problem_of(type(problem).__name__, status, str(problem), facts)


def _problem_of(
    title: str, status: int, detail: str, facts: Mapping[str, Any] | None = None
) -> JSONResponse:
    # A fact called `status` gives way to the status of the answer.
    about = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return JSONResponse({**(facts or {}), **about}, status, media_type=PROBLEM)


def _decoded(raw: str) -> str:
    """A part of the path as it was meant; it may have any character in it, also a slash."""
    try:
        return unquote(raw, errors="strict")
    except UnicodeDecodeError:
        raise BadInput(f"{raw!r} in the path is not UTF-8") from None


class _RawPath:
    """Routes by the path as it was sent: `%2F` in an id is a part of the id."""

    def __init__(self, app: Asgi) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path")
            scope = {**scope, "path": raw.decode("ascii") if raw else quote(scope["path"])}
        await self._app(scope, receive, send)

"""What the ledger's HTTP API answers, by itself and in the console: the ledger's own values."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from fastapi import Response
from pydantic import BaseModel, BeforeValidator, Field, create_model

from windlass.ledger.model.ledger import (
    Confirmation,
    Deduction,
    Entry,
    Receipt,
    Refusal,
    Return,
    Stock,
)
from windlass.view.audit import Audit
from windlass.web.view import answer

T = TypeVar("T", Receipt, Deduction, Return, Confirmation)

# The status of the answer says whether it was made before.
REPLAYED = ("replayed",)


class OutOfStockRefusal(BaseModel):
    """A deduction was refused: less was available than wanted."""

    error: Literal["OutOfStock"]
    sku: str
    wanted: int
    available: int


class UnknownSkuRefusal(BaseModel):
    """A deduction was refused: none of it ever came in."""

    error: Literal["UnknownSku"]
    sku: str


def _flat(refusal: object) -> object:
    return {"error": refusal.error, **refusal.facts} if isinstance(refusal, Refusal) else refusal


AnyRefusal = Annotated[
    Annotated[OutOfStockRefusal | UnknownSkuRefusal, Field(discriminator="error")],
    BeforeValidator(_flat),
]

RECEIPT = answer(Receipt, without=REPLAYED)
RETURN = answer(Return, without=REPLAYED)
RETURNS = answer(list[Return], without=REPLAYED)
CONFIRMATION = answer(Confirmation, without=REPLAYED)
STOCK = answer(Stock)
STOCKS = answer(list[Stock])
ENTRIES = answer(list[Entry])
AUDIT = answer(Audit)
DEDUCTION: Any = create_model(
    "Deduction",
    __base__=answer(Deduction, without=("refusal", *REPLAYED)),
    __doc__=Deduction.__doc__,
    refusal=(AnyRefusal | None, ...),
)


def made(view: Any, problems: dict[int | str, dict[str, Any]]) -> dict[str, Any]:
    """What a movement answers: 201, 200 when it was made before, or a problem."""
    again = {"model": view, "description": "It was made before; this is the same answer."}
    return {"status_code": 201, "response_model": view, "responses": {200: again, **problems}}


def with_status(response: Response, made: T) -> T:
    """What was made; the answer has the status 200 if it was made before."""
    if made.replayed:
        response.status_code = 200
    return made

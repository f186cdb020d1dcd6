"""What the ledger's HTTP API takes, answers and refuses.

Answers are the ledger's own values, and errors are problem+json, with their facts as fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, Field, StrictInt, create_model
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from windlass import errors
from windlass.ledger.ledger import Ledger
from windlass.ledger.model.ledger import (
    LONGEST_REASON,
    MOST_BYTES,
    MOST_LINES,
    MOST_OF_A_SKU,
    Confirmation,
    Deduction,
    Entry,
    Receipt,
    Refusal,
    Return,
    Stock,
)
from windlass.value.task import LONGEST_KEY, RESERVED
from windlass.view.audit import Audit
from windlass.web.access import AccessGate
from windlass.web.credential import Credentials, Guesses, check_secrets
from windlass.web.problem import PROBLEM, WORDS, Problem, facts_of, problem, status_of
from windlass.web.right import LEDGER_ALONE
from windlass.web.token import tokens_in
from windlass.web.view import RequestBody, answer

REFERENCE = "#/components/schemas/{model}"
MOST_ERRORS = 100

StatusName = Literal["held", "deducted", "refused", "voided", "lapsed"]
# The status of the answer says whether it was made before.
REPLAYED = ("replayed",)
ANY_TEXT = (
    f"Any text of at most {LONGEST_KEY} characters and {MOST_BYTES} bytes in UTF-8 "
    f"that does not begin with `{RESERVED}`."
)
Id = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_KEY, pattern=r"^[^\x00]+$", description=ANY_TEXT),
]


class LineBody(RequestBody):
    """One SKU and how many of it."""

    sku: Id
    quantity: Annotated[StrictInt, Field(ge=1, le=MOST_OF_A_SKU)]


class AdjustLineBody(RequestBody):
    """One SKU and how many more, or less, there are of it."""

    sku: Id
    quantity: Annotated[StrictInt, Field(ge=-MOST_OF_A_SKU, le=MOST_OF_A_SKU)]


class MovementBody(RequestBody):
    """Lines under an id that the caller chooses."""

    id: Id
    lines: Annotated[list[LineBody], Field(min_length=1, max_length=MOST_LINES)]


class ExchangeBody(RequestBody):
    """What comes back, and what goes out for it, under an id that the caller chooses."""

    id: Id
    back: Annotated[list[LineBody], Field(min_length=1, max_length=MOST_LINES)]
    out: Annotated[list[LineBody], Field(min_length=1, max_length=MOST_LINES)]


class DeductionBody(MovementBody):
    """A deduction; with a hold, such as "15m", it comes back unless it is confirmed."""

    hold: Annotated[str, Field(examples=["15m"])] | None = None


class AdjustmentBody(RequestBody):
    """What a count found."""

    id: Id
    lines: Annotated[list[AdjustLineBody], Field(min_length=1, max_length=MOST_LINES)]
    reason: Annotated[str, Field(max_length=LONGEST_REASON)] = ""


def pairs(lines: Iterable[LineBody] | Iterable[AdjustLineBody]) -> list[tuple[str, int]]:
    """The lines of a body, as the ledger takes them."""
    return [(line.sku, line.quantity) for line in lines]


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


class BalanceLimitRefusal(BaseModel):
    """A deduction was refused: a sum of the ledger would become too large."""

    error: Literal["BalanceLimit"]
    sku: str
    wanted: int
    room: int


def _flat(refusal: object) -> object:
    return {"error": refusal.error, **refusal.facts} if isinstance(refusal, Refusal) else refusal


AnyRefusal = Annotated[
    Annotated[
        OutOfStockRefusal | UnknownSkuRefusal | BalanceLimitRefusal, Field(discriminator="error")
    ],
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


class Mistake(BaseModel):
    """A part of the request that is wrong."""

    where: str
    what: str


class MalformedProblem(Problem):
    """The request is not as this document says; has the first hundred mistakes."""

    title: Literal["Malformed"]
    errors: list[Mistake]


class Malformed(HTTPException):
    """A mistake that is found before the body is validated."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(422, f"{where}: {what}")
        self.mistake = {"where": where, "what": what}


def _model(error: type[Exception], **facts: Any) -> type[Problem]:
    """The problem that tells of `error`."""
    title: Any = Literal.__getitem__(error.__name__)
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in facts.items()}
    return create_model(
        f"{error.__name__}Problem",
        __base__=Problem,
        __doc__=error.__doc__,
        title=(title, ...),
        **fields,
    )


OUT_OF_STOCK = _model(errors.OutOfStock, sku=str, wanted=int, available=int)
UNKNOWN_SKU = _model(errors.UnknownSku, sku=str)
UNKNOWN_DEDUCTION = _model(errors.UnknownDeduction, id=str)
OVER_RETURN = _model(errors.OverReturn, sku=str, wanted=int, returnable=int)
BALANCE_LIMIT = _model(errors.BalanceLimit, sku=str, wanted=int, room=int)
NOT_HELD = _model(errors.NotHeld, id=str, deduction_status=StatusName)
ID_CONFLICT = _model(errors.IdConflict, id=str, difference=str)
INVALID_QUANTITY = _model(errors.InvalidQuantity, sku=str, quantity=int | str)

Problems = dict[int, tuple[type[Problem], ...]]
Responses = dict[int | str, dict[str, Any]]
AT_THE_GATE: Problems = {401: (), 403: (), 415: (), 429: ()}
EVERYWHERE: Problems = AT_THE_GATE | {422: (MalformedProblem,), 500: (), 503: ()}
SAID = WORDS | {
    409: "The id was used for something else.",
    422: "Refused or malformed; the facts are fields.",
    500: "The server failed; its log says why.",
}
MODELS = (
    *(Problem, MalformedProblem, OUT_OF_STOCK, UNKNOWN_SKU, UNKNOWN_DEDUCTION, OVER_RETURN),
    *(BALANCE_LIMIT, NOT_HELD, ID_CONFLICT, INVALID_QUANTITY),
)


def described(problems: Problems) -> Responses:
    """The problems as FastAPI takes them."""
    return {
        code: {"description": SAID[code], "content": {PROBLEM: {"schema": _one_of(kinds)}}}
        for code, kinds in problems.items()
    }


class Api(FastAPI):
    """An application that answers errors with problems, and describes them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, responses=described(EVERYWHERE))
        self.add_exception_handler(errors.WindlassError, _on_error)
        self.add_exception_handler(RequestValidationError, _on_malformed)
        self.add_exception_handler(HTTPException, _on_http)
        self.add_exception_handler(Exception, _on_anything)

    def openapi(self) -> dict[str, Any]:
        """The document, with the problems that it refers to."""
        document = super().openapi()
        _, schemas = models_json_schema(
            [(model, "serialization") for model in MODELS], ref_template=REFERENCE
        )
        document["components"]["schemas"].update(schemas["$defs"])
        return document


def add_gate(api: FastAPI, ledger: Ledger, secret: str | None) -> None:
    """Put the console's gate before `api`.

    Every request shows the secret, or an access token of the ledger's database, as its bearer
    token. A viewer's token reads, and that of a producer moves stock.
    """
    if secret is None:
        raise errors.BadInput(
            "windlass.ledger.http.create serves no ledger without a secret; give "
            "create(ledger, secret=...) at least 16 characters, as `openssl rand -base64 32` "
            "prints them"
        )
    check_secrets(secret)
    api.add_middleware(
        AccessGate,
        credentials=Credentials(secret),
        guesses=Guesses(),
        tokens=tokens_in(ledger),
        rights=LEDGER_ALONE,
        below="",
        open_paths=frozenset({"/openapi.json"}),
    )


def _one_of(kinds: tuple[type[Problem], ...]) -> dict[str, Any]:
    """One of these, or a problem without facts."""
    all_kinds: tuple[type[Problem], ...] = (*kinds, Problem)
    named = [{"$ref": REFERENCE.format(model=kind.__name__)} for kind in all_kinds]
    return {"anyOf": named} if len(named) > 1 else named[0]


async def _on_error(_request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, errors.DatabaseUnavailable):
        # Callers should not see the address of the database.
        said = "the database does not answer; call again under the same id"
        return problem(503, type(error).__name__, said)
    if not isinstance(error, errors.Refused | errors.IdConflict | errors.BadInput):
        raise error
    return problem(status_of(error), type(error).__name__, str(error), facts=facts_of(error))


async def _on_malformed(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    mistakes = error.errors()
    found = [
        {"where": ".".join(map(str, each["loc"])), "what": each["msg"]}
        for each in mistakes[:MOST_ERRORS]
    ]
    said = "; ".join(f"{each['where']}: {each['what']}" for each in found[:3])
    more = f"; and {len(mistakes) - 3} more" if len(mistakes) > 3 else ""
    return problem(422, "Malformed", said + more, facts={"errors": found})


async def _on_http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if isinstance(error, Malformed):
        return problem(422, "Malformed", error.detail, facts={"errors": [error.mistake]})
    headers = dict(error.headers or {})
    return problem(error.status_code, "HttpError", str(error.detail), headers=headers)


async def _on_anything(_request: Request, _error: Exception) -> JSONResponse:
    # It is raised again after this answer, so that the server logs it.
    return problem(500, "InternalError", "the server failed; its log says why")

"""Errors over HTTP as problem+json, and their description for OpenAPI."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from windlass.errors import (
    BadInput,
    DatabaseUnavailable,
    IdConflict,
    InvalidQuantity,
    NotHeld,
    Refused,
    UnknownDeduction,
    UnknownSku,
    WindlassError,
)
from windlass.web.problem import PROBLEM, Problem
from windlass.web.problem import problem as answer

REFERENCE = "#/components/schemas/{model}"
MOST_ERRORS = 100

StatusName = Literal["held", "deducted", "refused", "voided", "lapsed"]


class OutOfStockProblem(Problem):
    """Less of a SKU is available than was wanted."""

    title: Literal["OutOfStock"]
    sku: str
    wanted: int
    available: int


class UnknownSkuProblem(Problem):
    """None of the SKU ever came in."""

    title: Literal["UnknownSku"]
    sku: str


class UnknownDeductionProblem(Problem):
    """Nothing was deducted under the id."""

    title: Literal["UnknownDeduction"]
    id: str


class OverReturnProblem(Problem):
    """More was to be given back than is left."""

    title: Literal["OverReturn"]
    sku: str
    wanted: int
    returnable: int


class NotHeldProblem(Problem):
    """There is no hold to confirm."""

    title: Literal["NotHeld"]
    id: str
    deduction_status: StatusName


class IdConflictProblem(Problem):
    """The id was used with another body."""

    title: Literal["IdConflict"]
    id: str
    difference: str


class InvalidQuantityProblem(Problem):
    """The quantity is out of range, or the lines of a SKU add up to 0."""

    title: Literal["InvalidQuantity"]
    sku: str
    quantity: int | str


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


Problems = dict[int, tuple[type[Problem], ...]]
EVERYWHERE: Problems = {422: (MalformedProblem,), 500: (), 503: ()}
WORDS = {
    400: "The body cannot be read.",
    404: "Unknown.",
    409: "The id was used for something else.",
    413: "The body is too large.",
    422: "Refused or malformed; the facts are fields.",
    500: "The server failed; its log says why.",
    503: "The database does not answer.",
}
MODELS: tuple[type[Problem], ...] = (
    Problem,
    OutOfStockProblem,
    UnknownSkuProblem,
    UnknownDeductionProblem,
    OverReturnProblem,
    NotHeldProblem,
    IdConflictProblem,
    InvalidQuantityProblem,
    MalformedProblem,
)


def described(problems: Problems) -> dict[int | str, dict[str, Any]]:
    """The problems as FastAPI takes them."""
    return {
        code: {"description": WORDS[code], "content": {PROBLEM: {"schema": _one_of(kinds)}}}
        for code, kinds in problems.items()
    }


class Api(FastAPI):
    """An application that answers errors with problems, and describes them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, responses=described(EVERYWHERE))
        self.add_exception_handler(WindlassError, _on_error)
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


def _one_of(kinds: tuple[type[Problem], ...]) -> dict[str, Any]:
    """One of these, or a problem without facts."""
    all_kinds: tuple[type[Problem], ...] = (*kinds, Problem)
    named = [{"$ref": REFERENCE.format(model=kind.__name__)} for kind in all_kinds]
    return {"anyOf": named} if len(named) > 1 else named[0]


async def _on_error(_request: Request, problem: Exception) -> JSONResponse:
    match problem:
        case UnknownDeduction() | UnknownSku():
            return _answer(404, problem, problem.facts)
        case NotHeld():
            # `status` is the status of the answer.
            return _answer(422, problem, {"id": problem.id, "deduction_status": problem.status})
        case Refused():
            return _answer(422, problem, problem.facts)
        case IdConflict():
            return _answer(409, problem, {"id": problem.id, "difference": problem.difference})
        case InvalidQuantity():
            return _answer(422, problem, {"sku": problem.sku, "quantity": problem.quantity})
        case BadInput():
            return _answer(422, problem)
        case DatabaseUnavailable():
            # Callers should not see the address of the database.
            said = "the database does not answer; call again under the same id"
            return answer(503, type(problem).__name__, said)
    raise problem


async def _on_malformed(_request: Request, problem: Exception) -> JSONResponse:
    assert isinstance(problem, RequestValidationError)
    errors = problem.errors()
    found = [
        {"where": ".".join(map(str, error["loc"])), "what": error["msg"]}
        for error in errors[:MOST_ERRORS]
    ]
    said = "; ".join(f"{error['where']}: {error['what']}" for error in found[:3])
    more = f"; and {len(errors) - 3} more" if len(errors) > 3 else ""
    return answer(422, "Malformed", said + more, facts={"errors": found})


async def _on_http(_request: Request, problem: Exception) -> JSONResponse:
    assert isinstance(problem, HTTPException)
    if isinstance(problem, Malformed):
        return answer(422, "Malformed", problem.detail, facts={"errors": [problem.mistake]})
    headers = dict(problem.headers or {})
    return answer(problem.status_code, "HttpError", str(problem.detail), headers=headers)


async def _on_anything(_request: Request, _problem: Exception) -> JSONResponse:
    # It is raised again after this answer, so that the server logs it.
    return answer(500, "InternalError", "the server failed; its log says why")


def _answer(status: int, problem: Exception, facts: dict[str, Any] | None = None) -> JSONResponse:
    return answer(status, type(problem).__name__, str(problem), facts=facts)

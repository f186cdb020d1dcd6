"""Errors over HTTP as problem+json, and their description for OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
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

PROBLEM = "application/problem+json"
REFERENCE = "#/components/schemas/{model}"
MOST_ERRORS = 100

StatusName = Literal["held", "deducted", "refused", "voided", "lapsed"]


class Problem(BaseModel):
    """What went wrong. `title` is the name of the error; its facts are more fields."""

    type: Literal["about:blank"]
    title: str
    status: int
    detail: str


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
            return _problem(404, problem, problem.facts)
        case NotHeld():
            # `status` is the status of the answer.
            return _problem(422, problem, {"id": problem.id, "deduction_status": problem.status})
        case Refused():
            return _problem(422, problem, problem.facts)
        case IdConflict():
            return _problem(409, problem, {"id": problem.id, "difference": problem.difference})
        case InvalidQuantity():
            return _problem(422, problem, {"sku": problem.sku, "quantity": problem.quantity})
        case BadInput():
            return _problem(422, problem)
        case DatabaseUnavailable():
            # Callers should not see the address of the database.
            said = "the database does not answer; call again under the same id"
            return _problem_of(type(problem).__name__, 503, said)
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
    return _problem_of("Malformed", 422, said + more, {"errors": found})


async def _on_http(_request: Request, problem: Exception) -> JSONResponse:
    assert isinstance(problem, HTTPException)
    if isinstance(problem, Malformed):
        return _problem_of("Malformed", 422, problem.detail, {"errors": [problem.mistake]})
    answer = _problem_of("HttpError", problem.status_code, str(problem.detail))
    answer.headers.update(problem.headers or {})
    return answer


async def _on_anything(_request: Request, _problem: Exception) -> JSONResponse:
    # It is raised again after this answer, so that the server logs it.
    return _problem_of("InternalError", 500, "the server failed; its log says why")


def _problem(
    status: int, problem: Exception, facts: Mapping[str, Any] | None = None
) -> JSONResponse:
    return _problem_of(type(problem).__name__, status, str(problem), facts)


def _problem_of(
    title: str, status: int, detail: str, facts: Mapping[str, Any] | None = None
) -> JSONResponse:
    about = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return JSONResponse({**about, **(facts or {})}, status, media_type=PROBLEM)

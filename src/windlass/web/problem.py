"""Errors as problem+json: what is wrong, with the facts as fields, and the HTTP status."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from windlass import errors

PROBLEM = "application/problem+json"
LONGEST = 2_000

log = logging.getLogger("windlass.web")

WORDS = {
    400: "The body cannot be read.",
    401: "You are not logged in.",
    403: "It is not allowed: read-only, or not from this console's own page.",
    404: "It is unknown.",
    409: "It cannot be done as things are.",
    413: "The body is too large.",
    415: "The body is not JSON, or does not say so.",
    422: "It is malformed.",
    429: "Too many wrong secrets, or more requests than a token may send; try again later.",
    503: "The database does not answer.",
}

STATUS: tuple[tuple[type[Exception], int], ...] = (
    (errors.Unknown, 404),
    (errors.NotPossible, 409),
    (errors.UnknownKind, 404),
    (errors.TaskNotFound, 404),
    (errors.UnknownAlert, 404),
    (errors.ItemNotFound, 404),
    (errors.UnknownDeduction, 404),
    (errors.UnknownSku, 404),
    (errors.Refused, 422),
    (errors.IdConflict, 409),
    (errors.UnknownFlow, 404),
    (errors.UnknownNode, 404),
    (errors.UnknownHandle, 404),
    (errors.DuplicateKey, 409),
    (errors.BadInput, 422),
    (errors.HeldBack, 409),
    (errors.AlreadyRunning, 409),
    (errors.AlreadyDone, 409),
    (errors.RunLost, 409),
    (errors.ResultTimeout, 409),
    (errors.DatabaseUnavailable, 503),
    (errors.SchemaMismatch, 503),
)


class Problem(BaseModel):
    """What went wrong; facts may be further fields."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """These answers, for the OpenAPI document."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        code: {"description": WORDS[code], "model": Problem, "content": {PROBLEM: schema}}
        for code in codes
    }


def handle_problems(api: FastAPI) -> None:
    """Answer errors as problems."""
    api.add_exception_handler(errors.WindlassError, _on_error)
    api.add_exception_handler(RequestValidationError, _on_malformed)
    api.add_exception_handler(HTTPException, _on_http)
    api.add_exception_handler(Exception, _on_surprise)


def problem(
    status: int,
    title: str,
    detail: str,
    *,
    headers: dict[str, str] | None = None,
    facts: dict[str, Any] | None = None,
) -> JSONResponse:
    """An answer that tells what went wrong."""
    about = {"type": "about:blank", "title": title, "status": status, "detail": detail[:LONGEST]}
    return JSONResponse({**(facts or {}), **about}, status, headers=headers, media_type=PROBLEM)


def status_of(error: Exception) -> int:
    """The status that an error is answered with."""
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


async def _on_error(_request: Request, error: Exception) -> JSONResponse:
    status = status_of(error)
    if status == 500:
        log.error("the console could not answer", exc_info=error)
    title = "Refused" if isinstance(error, errors.NotPossible) else type(error).__name__
    return problem(status, title, str(error), facts=facts_of(error))


def facts_of(error: Exception) -> dict[str, Any]:
    """The fields that an answer has because of `error`."""
    match error:
        case errors.DatabaseUnavailable():
            return {"missing": list(error.missing)}
        case errors.NotHeld():
            # `status` is the status of the answer.
            return {"id": error.id, "deduction_status": error.status}
        case errors.Refused():
            return error.facts
        case errors.BadArgument(argument=str()):
            return {"kind": error.kind, "argument": error.argument}
        case errors.IdConflict():
            return {"id": error.id, "difference": error.difference}
        case errors.InvalidQuantity():
            return {"sku": error.sku, "quantity": error.quantity}
    return {}


async def _on_malformed(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # Never the given value: it may be a secret.
    found = [
        {"where": ".".join(map(str, each["loc"])), "what": str(each["msg"])}
        for each in error.errors()
    ]
    said = "; ".join(f"{each['where']}: {each['what']}" for each in found[:3])
    status = 400 if any(each["type"] == "json_invalid" for each in error.errors()) else 422
    return problem(status, "Malformed", said, facts={"errors": found[:20]})


async def _on_http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    return problem(error.status_code, "HttpError", str(error.detail), headers=headers)


async def _on_surprise(_request: Request, error: Exception) -> JSONResponse:
    log.error("the console could not answer", exc_info=error)
    return problem(500, "Surprise", "the console failed; its log says why")

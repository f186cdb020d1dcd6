"""Callbacks: an external system tells how a task ended, by the secret of that submission.

The same as `windlass callback`, below the console's own address. It is no part of the API: neither
a session nor the console's secret opens it, nor is either needed.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Path
from pydantic import BaseModel, StrictBool

from windlass.errors import Unknown, UnknownHandle
from windlass.web.problem import problems
from windlass.web.request import AnyConsole
from windlass.web.view import View

router = APIRouter(tags=["callback"])

LARGEST = 2**63 - 1


class Told(BaseModel):
    """How the task ended over there; whatever else the system says is not looked at."""

    ok: StrictBool
    result: Any = None
    reason: str | None = None


class Heard(View):
    """Whether that made the difference: a late or repeated callback changes nothing."""

    changed: bool


def _secret(authorization: Annotated[str, Header(include_in_schema=False)] = "") -> str:
    scheme, _, secret = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise HTTPException(
            401,
            "give the secret of the task: Authorization: Bearer ...",
            {"WWW-Authenticate": "Bearer"},
        )
    return secret.strip()


@router.post("/callback/{task}", responses=problems(400, 401, 403, 404, 413, 422, 503))
def callback(
    secret: Annotated[str, Depends(_secret)],
    task: Annotated[int, Path(ge=1, le=LARGEST)],
    told: Told,
    console: AnyConsole,
) -> Heard:
    """End an external task. The secret of the submission is the bearer token."""
    reason = told.reason or ""
    try:
        changed = console.app.external.notify(
            task, ok=told.ok, result=told.result, reason=reason, secret=secret
        )
    except UnknownHandle:
        # Whether the task or the secret is wrong is nobody's business.
        raise Unknown("no such task, or not its secret") from None
    return Heard(changed=changed)

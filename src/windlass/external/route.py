"""The console's route for callbacks: `windlass callback`, below the address of the console.

It is not a part of the API: only the secret of a submission opens it, not a session or the
console's own secret.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Path
from pydantic import BaseModel, StrictBool

from windlass.errors import Unknown, UnknownHandle
from windlass.external.operate import bearer_secret
from windlass.web.problem import problems
from windlass.web.request import AnyConsole
from windlass.web.view import View

router = APIRouter(tags=["callback"])

LARGEST = 2**63 - 1


class Callback(BaseModel):
    """How the task ended; other fields are ignored."""

    ok: StrictBool
    result: Any = None
    reason: str | None = None


class CallbackAnswer(View):
    """Whether the callback ended the task; a late or repeated one changes nothing."""

    changed: bool


def _secret(authorization: Annotated[str, Header(include_in_schema=False)] = "") -> str:
    secret = bearer_secret(authorization)
    if secret is None:
        raise HTTPException(
            401,
            "give the secret of the task: Authorization: Bearer ...",
            {"WWW-Authenticate": "Bearer"},
        )
    return secret


@router.post("/callback/{task}", responses=problems(400, 401, 403, 404, 413, 422, 503))
def callback(
    secret: Annotated[str, Depends(_secret)],
    task: Annotated[int, Path(ge=1, le=LARGEST)],
    body: Callback,
    console: AnyConsole,
) -> CallbackAnswer:
    """End an external task. The secret of the submission is the bearer token."""
    reason = body.reason or ""
    try:
        changed = console.app.external.notify(
            task, ok=body.ok, result=body.result, reason=reason, secret=secret
        )
    except UnknownHandle:
        # The answer does not tell whether the task or the secret is wrong.
        raise Unknown("no such task, or not its secret") from None
    return CallbackAnswer(changed=changed)

"""How external tasks ended, over HTTP: by the secret of a submission, or as a program that may.

The route of callbacks, which `windlass callback` serves too, is not a part of the API: only the
secret of a submission opens it, not a session or the console's own secret.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Path
from pydantic import BaseModel, Field, StrictBool, StrictInt, StrictStr

from windlass.errors import Unknown, UnknownHandle
from windlass.external.operate import bearer_secret
from windlass.view.action import Action
from windlass.web.problem import problems
from windlass.web.request import AnyConsole, ReadyConsole, RequestLog
from windlass.web.view import STORABLE, JsonValue, RequestBody, View, shown_as

router = APIRouter(tags=["callback"])
api = APIRouter(tags=["tasks"])

LARGEST = 2**63 - 1
Handle = Annotated[StrictStr, Field(min_length=1, max_length=255, pattern=STORABLE)]


class Callback(BaseModel):
    """How the task ended; other fields are ignored."""

    ok: StrictBool
    result: Any = None
    reason: str | None = None


class ExternalEnd(RequestBody):
    """How an external task ended: the task by its id, or by the handle of the external system."""

    model_config = shown_as({"task": "job-17", "ok": True, "result": {"rows": 1200}})

    task: Annotated[StrictInt, Field(ge=1, le=LARGEST)] | Handle
    ok: StrictBool
    result: JsonValue = None
    reason: Annotated[str, Field(max_length=100_000, pattern=STORABLE)] = ""
    # Which system the handle is of, if several may have it.
    kind: Annotated[str, Field(max_length=100, pattern=STORABLE)] | None = None


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


@api.post("/notify", responses=problems(404, 409))
def notify(body: ExternalEnd, console: ReadyConsole, log: RequestLog) -> CallbackAnswer:
    """End an external task. A late or repeated call changes nothing."""
    with log.record(Action.TASK_NOTIFY, str(body.task), ok=body.ok) as entry:
        changed = console.app.external.notify(
            body.task, ok=body.ok, result=body.result, reason=body.reason, kind=body.kind
        )
        entry.says(f"{body.task} has {'ended' if changed else 'ended before'}")
    return CallbackAnswer(changed=changed)


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

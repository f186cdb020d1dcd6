"""The routes of access tokens: list them, make one, revoke one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from windlass.operate.token.model import NewToken, TokenView
from windlass.view.action import Action
from windlass.view.listing import Listing
from windlass.view.role import Role
from windlass.web.problem import problems
from windlass.web.request import ReadyConsole, RequestLog, RunName
from windlass.web.view import RequestBody, answer

router = APIRouter(tags=["tokens"])


class CreateToken(RequestBody):
    """The name and the role of a new token, and for how long it is valid; null: without end."""

    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._@-]+$")]
    role: Role
    expires: Annotated[str, Field(max_length=20)] | None = Field(default=None, examples=["90d"])


@router.get("/tokens", response_model=answer(Listing[TokenView]))
def tokens(console: ReadyConsole) -> Listing[TokenView]:
    """All tokens by name, also those that were revoked or have expired; never their text."""
    return console.tokens.listing()


@router.post("/tokens", responses=problems(409), response_model=answer(NewToken))
def create(body: CreateToken, console: ReadyConsole, log: RequestLog) -> NewToken:
    """Make a token. Its text is in this answer and can never be seen again."""
    detail = {"role": body.role, "expires": body.expires}
    with log.record(Action.TOKEN_CREATE, body.name, **detail) as entry:
        made = console.tokens.create(body.name, body.role, expires=body.expires, who=log.who)
        entry.says(f"{made.name} is made: {made.prefix}…")
    return made


@router.post(
    "/tokens/{name}/revoke", responses=problems(404, 409), response_model=answer(TokenView)
)
def revoke(name: RunName, console: ReadyConsole, log: RequestLog) -> TokenView:
    """Have a token open nothing any more, nor the sessions that were begun with it."""
    with log.record(Action.TOKEN_REVOKE, name) as entry:
        revoked = console.tokens.revoke(name, who=log.who)
        entry.says(f"{name} is revoked: {revoked.prefix}…")
    return revoked

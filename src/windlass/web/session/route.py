"""The routes of sessions: log in, log out, and who is logged in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import StringConstraints

from windlass import __version__
from windlass.view.identity import whoami
from windlass.web.access import Actor, cleaned, too_many
from windlass.web.problem import problem, problems
from windlass.web.request import AnyConsole, Console
from windlass.web.session.model import COOKIE, LONGEST_NAME, SESSION_SECONDS, Role
from windlass.web.view import Moment, RequestBody, View

router = APIRouter(tags=["session"])


class LogIn(RequestBody):
    """The secret, and a name for the audit log."""

    secret: Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
    name: Annotated[str, StringConstraints(max_length=LONGEST_NAME)] = ""


class SessionView(View):
    """Who is logged in. Requests that change something have `token` as x-csrf-token."""

    is_logged_in: bool
    needs_secret: bool
    name: str | None
    role: Role | None
    read_only: bool
    token: str | None
    expires_at: Moment | None
    version: str


@router.get("/session")
def look(request: Request, response: Response, console: AnyConsole) -> SessionView:
    """Who is logged in; without a secret, this begins a session for everybody on this machine."""
    actor: Actor | None = request.state.actor
    if actor is not None and actor.session is None and console.sessions.is_open:
        actor = _begin(request, response, console, whoami(), actor.role)
    return _view(console, actor)


@router.post("/session", response_model=SessionView, responses=problems(429))
def log_in(
    body: LogIn, request: Request, response: Response, console: AnyConsole
) -> SessionView | Response:
    """Begin a session by the secret."""
    address = request.client.host if request.client else "unknown"
    wait = console.guesses.wait_seconds(address)
    if wait:
        return too_many(wait)
    role = console.sessions.role_of(body.secret)
    if role is None:
        console.guesses.was_wrong(address)
        return problem(401, "WrongSecret", "that is not the secret")
    role = Role.VIEWER if console.read_only else role
    return _view(console, _begin(request, response, console, cleaned(body.name) or str(role), role))


@router.delete("/session")
def log_out(request: Request, response: Response, console: AnyConsole) -> SessionView:
    """End the session."""
    actor: Actor | None = request.state.actor
    if actor is not None and actor.session is not None:
        console.sessions.end(actor.session)
    response.delete_cookie(COOKIE, path=_path(request), httponly=True, samesite="strict")
    return _view(console, None)


def _begin(request: Request, response: Response, console: Console, name: str, role: Role) -> Actor:
    session, cookie = console.sessions.begin(name, role)
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=SESSION_SECONDS,
        path=_path(request),
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return Actor(name, role, "", session)


def _path(request: Request) -> str:
    return str(request.scope.get("root_path") or "/")


def _view(console: Console, actor: Actor | None) -> SessionView:
    session = None if actor is None else actor.session
    return SessionView(
        is_logged_in=actor is not None,
        needs_secret=not console.sessions.is_open,
        name=None if actor is None else actor.name,
        role=None if actor is None else actor.role,
        read_only=actor is not None and actor.role is not Role.OPERATOR,
        token=None if session is None else console.sessions.token_of(session),
        expires_at=None if session is None else datetime.fromtimestamp(session.expires_at, UTC),
        version=__version__,
    )

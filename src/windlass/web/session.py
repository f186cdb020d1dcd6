"""The routes of sessions: log in by a secret or a link, log out, and who is logged in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import StringConstraints

from windlass import __version__
from windlass.view.action import whoami
from windlass.web.access import LONGEST_NAME, Actor, cleaned, cookie_name, wrong
from windlass.web.credential import LONGEST_SECRET, SESSION_SECONDS, Role
from windlass.web.problem import problems
from windlass.web.request import AnyConsole, Console
from windlass.web.view import Moment, RequestBody, View

router = APIRouter(tags=["session"])
# Not below /api: a browser opens it.
link = APIRouter(include_in_schema=False)


class LogIn(RequestBody):
    """The secret, or the token of the printed link, and a name for the audit log."""

    secret: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_SECRET)]
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
def look(request: Request, console: AnyConsole) -> SessionView:
    """Who is logged in."""
    return _view(console, request.state.actor)


@router.post("/session", response_model=SessionView, responses=problems(429))
def log_in(
    body: LogIn, request: Request, response: Response, console: AnyConsole
) -> SessionView | Response:
    """Begin a session by the secret, or by the token of the printed link."""
    found = console.credentials
    role, name = found.role_of(body.secret), cleaned(body.name)
    if role is None:
        role, name = found.trade(body.secret), name or whoami()
    if role is None:
        address = request.client.host if request.client else "unknown"
        text = "that is not the secret" if found.has_secret else "the link was used, or is wrong"
        return wrong(console.guesses, address, body.secret, text)
    return _view(console, _begin(request, response, console, name or str(role), role))


@link.get("/login")
def follow_link(request: Request, console: AnyConsole, token: str = "") -> Response:
    """Trade the token of the printed link for a session; the address bar does not keep it."""
    home = str(request.scope.get("root_path", "")).rstrip("/") + "/"
    response = RedirectResponse(home, 303)
    # A browser may load a link that nobody has followed yet.
    is_early = "prefetch" in request.headers.get("sec-purpose", "")
    role = None if is_early else console.credentials.trade(token)
    # The page at home says what to do if the link was used.
    if role is not None:
        _begin(request, response, console, whoami(), role)
    return response


@router.delete("/session")
def log_out(request: Request, response: Response, console: AnyConsole) -> SessionView:
    """End the session."""
    actor: Actor | None = request.state.actor
    if actor is not None and actor.session is not None:
        console.sessions.end(actor.session)
    name = cookie_name(request.headers)
    response.delete_cookie(name, path=_path(request), httponly=True, samesite="strict")
    return _view(console, None)


def _begin(request: Request, response: Response, console: Console, name: str, role: Role) -> Actor:
    session, cookie = console.sessions.begin(name, role)
    response.set_cookie(
        cookie_name(request.headers),
        cookie,
        max_age=SESSION_SECONDS,
        path=_path(request),
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return Actor(name, Role.VIEWER if console.read_only else role, "", session)


def _path(request: Request) -> str:
    return str(request.scope.get("root_path") or "/")


def _view(console: Console, actor: Actor | None) -> SessionView:
    session = None if actor is None else actor.session
    return SessionView(
        is_logged_in=actor is not None,
        needs_secret=console.credentials.has_secret,
        name=None if actor is None else actor.name,
        role=None if actor is None else actor.role,
        read_only=actor is not None and actor.role is not Role.OPERATOR,
        token=None if session is None else console.sessions.token_of(session),
        expires_at=None if session is None else datetime.fromtimestamp(session.expires_at, UTC),
        version=__version__,
    )

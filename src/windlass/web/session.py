"""The routes of sessions: log in by a secret, a token or a link; log out; who is logged in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import StringConstraints

from windlass import __version__
from windlass.view.action import whoami
from windlass.view.role import Role
from windlass.web.access import LONGEST_NAME, Actor, cleaned, cookie_name, ended, name_by, wrong
from windlass.web.credential import LONGEST_SECRET, SESSION_SECONDS, Means, Session
from windlass.web.problem import problem, problems
from windlass.web.request import AnyConsole, Console
from windlass.web.right import OPERATORS
from windlass.web.view import Moment, RequestBody, View

router = APIRouter(tags=["session"])
# Not below /api: a browser opens it.
link = APIRouter(include_in_schema=False)


class LogIn(RequestBody):
    """The secret, an access token or that of the printed link, and a name for the audit log."""

    secret: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_SECRET)]
    name: Annotated[str, StringConstraints(max_length=LONGEST_NAME)] = ""


class SessionView(View):
    """Who is logged in, and by what. Requests that change something have `token` as x-csrf-token.

    With `read_only` one may look and not act.
    """

    is_logged_in: bool
    needs_secret: bool
    name: str | None
    role: Role | None
    by: Means | None
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
    """Begin a session by the secret, by an access token, or by the token of the printed link."""
    begun = _begun(console, body, cleaned(body.name))
    if isinstance(begun, tuple):
        return _view(console, _begin(request, response, console, begun))
    if isinstance(begun, Response):
        return begun
    address = request.client.host if request.client else "unknown"
    return wrong(console.guesses, address, body.secret, begun)


def _begun(console: Console, body: LogIn, name: str) -> tuple[Session, str] | Response | str:
    """The session that was begun and its cookie, or what is wrong."""
    found, sessions = console.credentials, console.sessions
    role = found.role_of(body.secret)
    if role is not None:
        return sessions.begin(name or str(role), role)
    role = found.trade(body.secret)
    if role is not None:
        return sessions.begin(name or whoami(), role, by="link")
    shown = console.tokens.recognise(body.secret)
    if shown is None:
        return "that is not the secret" if found.has_secret else "the link was used, or is wrong"
    row = shown.row
    if shown.state != "active":
        return ended(row, shown.state)
    if row.role is Role.PRODUCER:
        text = f"the token {row.name} is for programs: a producer can see nothing here"
        return problem(403, "NotAllowed", text)
    console.tokens.use(row)
    return sessions.begin(name_by(row, name), row.role, by="token", token=row)


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
        _begin(request, response, console, console.sessions.begin(whoami(), role, by="link"))
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


def _begin(
    request: Request, response: Response, console: Console, begun: tuple[Session, str]
) -> Actor:
    session, cookie = begun
    response.set_cookie(
        cookie_name(request.headers),
        cookie,
        max_age=SESSION_SECONDS,
        path=_path(request),
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    role = Role.VIEWER if console.read_only else session.role
    return Actor(session.name, role, "", session, session.by, session.token)


def _path(request: Request) -> str:
    return str(request.scope.get("root_path") or "/")


def _view(console: Console, actor: Actor | None) -> SessionView:
    session = None if actor is None else actor.session
    return SessionView(
        is_logged_in=actor is not None,
        needs_secret=console.credentials.has_secret,
        name=None if actor is None else actor.name,
        role=None if actor is None else actor.role,
        by=None if actor is None else actor.by,
        read_only=actor is not None and actor.role not in OPERATORS,
        token=None if session is None else console.sessions.token_of(session),
        expires_at=None if session is None else datetime.fromtimestamp(session.expires_at, UTC),
        version=__version__,
    )

"""Access to the API: every request passes the gate, and a request that is not allowed ends there.

Without a secret only this machine gets in, under a name that only this machine has: neither the
network nor a foreign page whose name points here can. A request that changes something must come
from the console's own page and carry the token of its session, or carry the secret itself.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, NamedTuple

from starlette.datastructures import Headers
from starlette.responses import Response

from windlass.view.identity import whoami
from windlass.web.problem import problem
from windlass.web.session.model import COOKIE, LONGEST_NAME, Guesses, Role, Session, Sessions

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# Open to people who are not logged in.
OPEN = frozenset({"/api/session", "/api/openapi.json", "/api/health"})
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
TOKEN = "x-csrf-token"
NAME = "x-windlass-user"


class Actor(NamedTuple):
    """Who sends a request, from which address, and in which session if there is a cookie."""

    name: str
    role: Role
    address: str
    session: Session | None = None


class AccessGate:
    """Lets a request in, or answers it."""

    def __init__(self, app: Asgi, *, sessions: Sessions, guesses: Guesses, read_only: bool) -> None:
        self._app = app
        self._sessions = sessions
        self._guesses = guesses
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refuse(scope, Headers(scope=scope))
        await (refusal or self._app)(scope, receive, send)

    def _refuse(self, scope: Scope, headers: Headers) -> Response | None:
        if self._sessions.is_open and not _is_local(scope, headers):
            return problem(
                403,
                "NotLocal",
                "without a secret the console answers this machine only, as localhost; "
                "set a secret to open it to others",
            )
        path = route_path(scope)
        if path != "/api" and not path.startswith("/api/"):
            return None
        is_safe = scope["method"] in SAFE
        if not is_safe and not _is_ours(headers):
            return problem(403, "ForeignOrigin", "only the console's own page may do that")
        actor = self._actor(scope, headers)
        if isinstance(actor, Response):
            return actor
        scope.setdefault("state", {})["actor"] = actor
        if path in OPEN:
            return None
        if actor is None:
            return problem(401, "LogIn", "log in, or send the secret as a bearer token")
        return None if is_safe else self._refuse_change(actor, headers)

    def _refuse_change(self, actor: Actor, headers: Headers) -> Response | None:
        if actor.role is not Role.OPERATOR:
            return problem(403, "ReadOnly", "this console is read-only for you")
        session = actor.session
        is_browser = session is not None or self._sessions.is_open
        token = headers.get(TOKEN, "")
        if is_browser and (session is None or not self._sessions.is_token_of(session, token)):
            return problem(
                403, "NoToken", f"send the token of the session as {TOKEN}; /api/session tells it"
            )
        return None

    def _actor(self, scope: Scope, headers: Headers) -> Actor | Response | None:
        address = (scope.get("client") or ("unknown", 0))[0]
        given = headers.get("authorization")
        if given is not None and not self._sessions.is_open:
            return self._bearer(given, address, headers.get(NAME, ""))
        session = self._sessions.read(_cookie(headers))
        if session is not None:
            return Actor(session.name, self._at_most(session.role), address, session)
        if self._sessions.is_open:
            return Actor(whoami(), self._at_most(Role.OPERATOR), address)
        return None

    def _bearer(self, given: str, address: str, name: str) -> Actor | Response:
        wait = self._guesses.wait_seconds(address)
        if wait:
            return too_many(wait)
        scheme, _, secret = given.partition(" ")
        role = self._sessions.role_of(secret.strip()) if scheme.lower() == "bearer" else None
        if role is None:
            self._guesses.was_wrong(address)
            headers = {"WWW-Authenticate": "Bearer"}
            return problem(401, "WrongSecret", "the bearer token is wrong", headers=headers)
        return Actor(cleaned(name) or "api", self._at_most(role), address)

    def _at_most(self, role: Role) -> Role:
        return Role.VIEWER if self._read_only else role


def route_path(scope: Scope) -> str:
    """The path below where the console is mounted, exactly as the router takes it."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    is_below = path == root or path.startswith(f"{root}/")
    return path.removeprefix(root) if root and is_below else path


def too_many(wait: float) -> Response:
    """The answer after too many wrong secrets."""
    seconds = str(int(wait) + 1)
    text = f"too many wrong secrets; try again in {seconds} s"
    return problem(429, "TooManyGuesses", text, headers={"Retry-After": seconds})


def cleaned(name: str) -> str:
    """The name that a person gave, on one line and not too long."""
    return "".join(letter for letter in name if letter.isprintable()).strip()[:LONGEST_NAME]


def _is_ours(headers: Headers) -> bool:
    """Whether a request comes from the console's page, or from no page."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host")


def _is_local(scope: Scope, headers: Headers) -> bool:
    host = headers.get("host", "")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    came_through = "forwarded" in headers or "x-forwarded-for" in headers
    return name.lower() in LOCAL_NAMES and not came_through and _is_loopback(scope.get("client"))


def _is_loopback(client: tuple[str, int] | None) -> bool:
    if client is None:
        # A Unix socket.
        return True
    try:
        return ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value

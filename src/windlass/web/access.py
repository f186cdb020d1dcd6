"""What every request passes: the shell around it, and the gate.

The shell adds security headers, limits bodies, and gives routes the path as it was sent. A request
that is not allowed ends at the gate. It must carry a credential: a session's cookie, or a secret or
an access token as its bearer token; or come from a trusted proxy that names the user. Its role must
be one that `windlass.web.right` has for the route. A request that changes something must come from
the console's own page and carry the token of its session, or carry the credential itself. Where a
request comes from is never a credential by itself; a console without a strong secret only refuses
other machines, and names that merely point at this one.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response

from windlass.errors import WindlassError
from windlass.operate.token.model import BEGIN, TokenRow
from windlass.operate.token.operate import Tokens
from windlass.view.role import Role
from windlass.web.credential import (
    SHORTEST_SECRET,
    Credentials,
    Guesses,
    Means,
    Session,
    Sessions,
)
from windlass.web.pace import RequestRate
from windlass.web.problem import problem
from windlass.web.proxy import SingleSignOn, Untold
from windlass.web.right import ADMINS, ANY, Rights, Roles

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
JSON = "application/json"
CHALLENGE = {"WWW-Authenticate": "Bearer"}
TOKEN = "x-csrf-token"
NAME = "x-windlass-user"

LARGEST_BODY = 1024 * 1024

CSP = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'self'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With "no-referrer" browsers would hide the origin of the console's own requests.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

COOKIE = "windlass_session"
LONGEST_NAME = 100


class Actor(NamedTuple):
    """Who sends a request, from which address, and in which session if there is a cookie."""

    name: str
    role: Role
    address: str
    session: Session | None = None
    by: Means = "secret"
    # The public part of the access token that let it in.
    token: str | None = None

    @property
    def via(self) -> str:
        """By which means it acts, for the audit log; nobody can choose that as they can a name."""
        face = "console" if self.session else "api"
        return f"{face} {self.by}" if self.by in ("token", "proxy") else face


@dataclass(eq=False)
class Shell:
    """Wraps the application: headers of answers, a limit for bodies, and the path as sent."""

    app: Asgi

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # Routes go by the path as it was sent: `%2F` in a name is a part of the name.
        raw = scope.get("raw_path")
        path = raw.decode("ascii", "replace") if raw else quote(scope["path"])
        scope = {**scope, "path": path.partition("?")[0]}

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            refusal = problem(413, "TooLarge", f"a body has at most {LARGEST_BODY:,} bytes")
            await refusal(scope, receive, guarded)
            return
        await self.app(scope, _bounded(receive), guarded)


@dataclass(eq=False)
class AccessGate:
    """Lets a request in, or answers it.

    It guards every path below `below` that is not in `open_paths`, and the paths in `beside`.
    Without `sessions` only a bearer token gets in.
    """

    app: Asgi
    credentials: Credentials
    guesses: Guesses
    tokens: Tokens
    rights: Rights
    below: str
    open_paths: frozenset[str]
    beside: frozenset[str] = frozenset()
    sessions: Sessions | None = None
    proxy: SingleSignOn | None = None
    read_only: bool = False
    pace: RequestRate | None = None

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if self._shows_token(headers):
            # What is known of tokens may have to be read anew.
            refusal = await run_in_threadpool(self._refuse_unless_known, scope, headers)
        else:
            refusal = self._refuse(scope, headers)
        await (refusal or self.app)(scope, receive, send)

    def _shows_token(self, headers: Headers) -> bool:
        if _bearer(headers).startswith(BEGIN):
            return True
        claimed = None if self.sessions is None else self.sessions.claimed(_cookie(headers))
        return claimed is not None and claimed.token is not None

    def _refuse_unless_known(self, scope: Scope, headers: Headers) -> Response | None:
        try:
            return self._refuse(scope, headers)
        except WindlassError as error:
            text = "the database does not answer, so no token can be checked; try again"
            return problem(503, type(error).__name__, text)

    def _refuse(self, scope: Scope, headers: Headers) -> Response | None:
        if self.credentials.is_local and not _is_local(scope, headers):
            return problem(
                403,
                "NotLocal",
                "without a secret of at least "
                f"{SHORTEST_SECRET} characters the console answers this machine only, as "
                "localhost; set one to open it to others",
            )
        path = route_path(scope)
        is_below = path == self.below or path.startswith(f"{self.below}/")
        if not is_below and path not in self.beside:
            return None
        is_safe = scope["method"] in SAFE
        if not is_safe:
            refusal = _refuse_form(headers)
            if refusal is not None:
                return refusal
        actor = self._actor(scope, headers)
        if isinstance(actor, Response):
            return actor
        scope.setdefault("state", {})["actor"] = actor
        if path in self.open_paths:
            return None
        if actor is None:
            return problem(401, "LogIn", self._how_to_get_in(), headers=CHALLENGE)
        return (
            self._refuse_role(actor, scope["method"], path)
            or (None if is_safe else self._refuse_forged(actor, headers))
            or self._refuse_haste(actor)
        )

    def _how_to_get_in(self) -> str:
        if self.sessions is None:
            return "send the secret, or a token, as a bearer token: Authorization: Bearer ..."
        return "log in, or send the secret or a token as a bearer token"

    def _refuse_role(self, actor: Actor, method: str, path: str) -> Response | None:
        is_safe = method in SAFE
        allowed = allowed_to(self.rights, method, path)
        if actor.role in allowed and (is_safe or not self.read_only):
            return None
        if not is_safe and (self.read_only or actor.role is Role.VIEWER):
            return problem(403, "ReadOnly", "this console is read-only for you")
        needed = " or ".join(role for role in Role if role in allowed)
        facts = {"role": str(actor.role), "needs": [role for role in Role if role in allowed]}
        text = f"the role {actor.role} may not {method} this; it takes the role {needed}"
        return problem(403, "NotAllowed", text, facts=facts)

    def _refuse_haste(self, actor: Actor) -> Response | None:
        if self.pace is None or actor.role is not Role.PRODUCER:
            return None
        return self.pace.refusal(actor.token or actor.name)

    def _refuse_forged(self, actor: Actor, headers: Headers) -> Response | None:
        session = actor.session
        if session is None or self.sessions is None:
            return None
        if not self.sessions.is_token_of(session, headers.get(TOKEN, "")):
            return problem(
                403, "NoToken", f"send the token of the session as {TOKEN}; /api/session tells it"
            )
        return None

    def _actor(self, scope: Scope, headers: Headers) -> Actor | Response | None:
        address = (scope.get("client") or ("unknown", 0))[0]
        bearer = _bearer(headers)
        role = self.credentials.role_of(bearer) if bearer else None
        if role is not None:
            name = cleaned(headers.get(NAME, "")) or "api"
            return Actor(name, self._at_most(role), address)
        shown = self.tokens.recognise(bearer) if bearer else None
        if shown is not None and shown.state == "active":
            self.tokens.use(shown.row)
            name = name_by(shown.row, headers.get(NAME, ""))
            return Actor(
                name, self._at_most(shown.row.role), address, by="token", token=shown.row.prefix
            )
        # The header of a person who is logged in may be for a proxy in front of the console.
        actor = self._person(scope, headers, address)
        if actor is None and "authorization" in headers:
            text = "the bearer token is wrong"
            if shown is not None:
                text = ended(shown.row, shown.state)
            return wrong(self.guesses, address, headers["authorization"], text)
        return actor

    def _person(self, scope: Scope, headers: Headers, address: str) -> Actor | Response | None:
        """Who is logged in, by a proxy or by a cookie. A proxy knows better: it was asked now."""
        sessions = self.sessions
        if sessions is None:
            return None
        try:
            user = None if self.proxy is None else self.proxy.user(scope, headers)
        except Untold as problem_:
            return problem(403, "UnknownUser", f"the proxy does not say who you are: {problem_}")
        if user is not None:
            role = self._at_most(user.role)
            return Actor(user.name, role, address, sessions.of_proxy(user.name, role), "proxy")
        session = sessions.read(_cookie(headers))
        if session is None:
            return None
        row = None if session.token is None else self.tokens.active(session.token)
        if row is not None:
            self.tokens.use(row)
        role = self._at_most(session.role)
        return Actor(session.name, role, address, session, session.by, session.token)

    def _at_most(self, role: Role) -> Role:
        """The role in this console; nobody becomes able to see more because it is read-only."""
        return Role.VIEWER if self.read_only and role is not Role.PRODUCER else role


def allowed_to(rights: Rights, method: str, path: str) -> Roles:
    """The roles that may send `method` to `path`, which is as it was sent."""
    # What may be read may be asked for in any way that only reads.
    method = "GET" if method in SAFE else method
    found = _found(rights.get(method, {}), path.split("/"))
    return ADMINS if found is None else found


def _found(place: Rights, parts: list[str]) -> Roles | None:
    if not parts:
        roles: Roles | None = place.get(None)
        return roles
    first, *rest = parts
    for name in (first, ANY) if first else (first,):
        below = _found(place[name], rest) if name in place else None
        if below is not None:
            return below
    return None


def route_path(scope: Scope) -> str:
    """The path below where the console is mounted, exactly as the router takes it."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    is_below = path == root or path.startswith(f"{root}/")
    return path.removeprefix(root) if root and is_below else path


def wrong(guesses: Guesses, address: str, given: str, text: str) -> Response:
    """The answer to a wrong credential, which says how long to wait after many of them."""
    wait = guesses.was_wrong(address, given)
    if not wait:
        return problem(401, "WrongSecret", text, headers=CHALLENGE)
    seconds = str(math.ceil(wait))
    text = f"too many wrong secrets; try again in {seconds} s"
    return problem(429, "TooManyGuesses", text, headers={"Retry-After": seconds})


def ended(row: TokenRow, state: str) -> str:
    """Why a token opens nothing any more. Only who has it is told."""
    return f"the token {row.name} {'was revoked' if state == 'revoked' else 'has expired'}"


def name_by(row: TokenRow, given: str) -> str:
    """Who acts with a token, for the audit log: the token, and the name that was given with it."""
    name = cleaned(given)
    return f"{name} (token {row.name})" if name else f"token {row.name}"


def cookie_name(headers: Headers) -> str:
    """The name of the session's cookie: browsers send a cookie to every port of a host."""
    port = headers.get("host", "").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isascii() and port.isdigit() else COOKIE


def cleaned(name: str) -> str:
    """The name that a person gave, on one line and not too long."""
    return "".join(letter for letter in name if letter.isprintable()).strip()[:LONGEST_NAME]


def _bearer(headers: Headers) -> str:
    """The bearer token that a request shows; empty without one."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _bounded(receive: Any) -> Any:
    """Receives a body until it is too large: a body need not say its length."""
    seen = 0

    async def bounded() -> Any:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > LARGEST_BODY:
            raise HTTPException(413, f"a body has at most {LARGEST_BODY:,} bytes")
        return message

    return bounded


def _refuse_form(headers: Headers) -> Response | None:
    """The answer to a request that a foreign page could send, or whose body is not JSON."""
    if not _is_ours(headers):
        return problem(403, "ForeignOrigin", "a page of another site may not do that")
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if has_body and kind != JSON:
        return problem(415, "NotJson", f"say what the body is: Content-Type: {JSON}")
    return None


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
        found = SimpleCookie(headers.get("cookie", "")).get(cookie_name(headers))
    except CookieError:
        return ""
    return "" if found is None else found.value

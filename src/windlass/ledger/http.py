"""The application that serves a ledger over HTTP, by itself or mounted in another.

A first answer is 201, the same answer again 200. Errors are problem+json: 404 for what is unknown,
409 for an id that was used for something else, 422 for what is refused or malformed, with the facts
as fields. Every request carries the secret, or an access token, as its bearer token and passes the
console's gate.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any
from urllib.parse import quote, unquote

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from windlass.ledger.ledger import Ledger
from windlass.ledger.route.api import AUDIT, Api, Malformed, add_gate, described
from windlass.ledger.route.movement import LedgerCall, add_routes
from windlass.view.audit import Audit

# Larger than the largest request that is allowed, with each character escaped.
MOST_BYTES = 32 * 1024 * 1024

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]


def create(ledger: Ledger, *, secret: str | None = None, audit: bool = True) -> FastAPI:
    """The application that serves `ledger` to those who have the secret or an access token.

    An audit reads every row: leave it out, `audit=False`, where callers are not trusted with that.
    """
    api = Api(
        title="Windlass ledger",
        summary="Stock that is deducted and given back, each movement once.",
        version="1",
        # These pages load scripts from other sites, and cannot send the secret.
        docs_url=None,
        redoc_url=None,
    )
    api.router.route_class = _StrictRoute

    async def call(response: Response) -> LedgerCall:
        return LedgerCall(ledger, response)

    add_routes(api.router, call, described)
    if audit:
        _add_audit(api, ledger)
    add_gate(api, ledger, secret)
    api.add_middleware(_RawPath)
    return api


def _add_audit(api: FastAPI, ledger: Ledger) -> None:
    @api.get("/audit", response_model=AUDIT)
    async def audit() -> Audit:
        return await ledger.aaudit()


class _RawPath:
    """Routes by the path as it was sent: `%2F` in an id is a part of the id."""

    def __init__(self, app: Asgi) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path")
            path = raw.decode("ascii") if raw else quote(scope["path"])
            root = _as_sent(scope.get("root_path", ""), path)
            scope = {**scope, "path": path, "root_path": root}
        await self._app(scope, receive, send)


class _StrictRoute(APIRoute):
    """A route whose requests have a `_StrictRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strictly


class _StrictRequest(Request):
    """A request whose body is neither too large nor ambiguous."""

    async def body(self) -> bytes:
        """The body, unless it is too large."""
        if not hasattr(self, "_body"):
            length = self.headers.get("content-length", "")
            _check_size(int(length) if length.isdecimal() and len(length) < 20 else 0)
            parts, size = [], 0
            async for part in self.stream():
                size += len(part)
                _check_size(size)
                parts.append(part)
            self._body = b"".join(parts)
        return self._body

    async def json(self) -> Any:
        """The body; no object in it may have the same name twice."""
        return json.loads(await self.body(), object_pairs_hook=_unique)


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise HTTPException(413, f"the body is larger than {MOST_BYTES:,} bytes")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        # A name may have half a surrogate pair, which UTF-8 cannot encode.
        named = twice[:80].encode(errors="backslashreplace").decode()
        raise Malformed(f"body.{named}", "is given twice in one object")
    return found


def _as_sent(root: str, path: str) -> str:
    """The beginning of `path`, as it was sent, that decodes to `root`."""
    # An encoded byte has at most three characters.
    for end in range(len(root), min(len(path), 3 * len(root.encode())) + 1):
        if path[end : end + 1] in ("", "/") and unquote(path[:end]) == root:
            return path[:end]
    return root

"""Stricter HTTP: paths as they were sent, and bodies that are neither too large nor ambiguous."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any
from urllib.parse import quote, unquote

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from windlass.ledger.route.problem import Malformed

# Larger than the largest request that is allowed, with each character escaped.
MOST_BYTES = 32 * 1024 * 1024

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]


class RawPath:
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


class StrictRoute(APIRoute):
    """A route whose requests have a `StrictRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return strictly


class StrictRequest(Request):
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

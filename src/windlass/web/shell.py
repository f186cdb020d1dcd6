"""What is around every answer: headers, a bound on bodies, and paths taken as they were sent."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException

from windlass.web.access import Asgi, Scope
from windlass.web.problem import problem

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


class Shell:
    """Wraps the application."""

    def __init__(self, app: Asgi) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
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
        await self._app(scope, _bounded(receive), guarded)


def _bounded(receive: Any) -> Any:
    """What is received, until it is too much: a body need not tell its length."""
    seen = 0

    async def bounded() -> Any:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > LARGEST_BODY:
            raise HTTPException(413, f"a body has at most {LARGEST_BODY:,} bytes")
        return message

    return bounded

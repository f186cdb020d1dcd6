"""The callback: an external system tells over HTTP how a task ended.

`POST /callback/{task}` with `Authorization: Bearer {secret}` and `{"ok": true, "result": ...}`. The
secret belongs to one submission of that task. A late or repeated callback, or one about an earlier
submission, is answered like the first and changes nothing.
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from windlass import telemetry
from windlass.app import App
from windlass.errors import BadInput, UnknownHandle, WindlassError

LARGEST = 1024 * 1024
LONGEST_NUMBER = 19
# How long nothing may come, and how long all of a body may take.
SILENT_SECONDS = 10.0
BODY_SECONDS = 30.0


class Refused(Exception):
    """A request that cannot be read; the status and the reason to answer with."""


def answer(app: App, path: str, authorization: str, body: bytes) -> tuple[int, dict[str, Any]]:
    """The status and the body of the answer to one callback."""
    place, _, number = path.strip("/").rpartition("/")
    is_number = number.isascii() and number.isdigit() and len(number) <= LONGEST_NUMBER
    if place != "callback" or not is_number:
        return 404, {"error": "there is nothing here; POST /callback/{task}"}
    scheme, _, secret = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        return 401, {"error": "give the secret of the task: Authorization: Bearer ..."}
    try:
        told = json.loads(body or b"{}")
    except (ValueError, RecursionError) as problem:
        return 400, {"error": f"the body is not JSON: {problem}"[:300]}
    if not isinstance(told, dict) or not isinstance(told.get("ok"), bool):
        return 400, {"error": 'the body must be {"ok": true or false, "result": ...}'}
    try:
        changed = app.external.notify(
            int(number),
            ok=told["ok"],
            result=told.get("result"),
            reason=str(told.get("reason") or ""),
            secret=secret.strip(),
        )
    except UnknownHandle:
        # Whether the task or the secret is wrong is nobody's business.
        return 404, {"error": "no such task, or not its secret"}
    except BadInput as problem:
        return 400, {"error": str(problem)[:300]}
    except WindlassError as problem:
        return 503, {"error": str(problem)}
    return 200, {"changed": changed}


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    timeout = SILENT_SECONDS
    server: Server

    def do_POST(self) -> None:
        """Answer a callback."""
        try:
            body = self._body()
        except Refused as problem:
            self._send(problem.args[0], {"error": problem.args[1]})
            return
        authorization = self.headers.get("Authorization", "")
        try:
            said = answer(self.server.app, self.path, authorization, body)
        except SQLAlchemyError:
            telemetry.log.exception("a callback failed")
            said = 503, {"error": "it cannot be written down now; call again"}
        self._send(*said)

    def _body(self) -> bytes:
        given = str(self.headers.get("Content-Length", "")).strip()
        if self.headers.get("Transfer-Encoding") is not None or not given:
            raise Refused(411, "say how long the body is: Content-Length")
        if not given.isascii() or not given.isdigit():
            raise Refused(400, f"Content-Length: {given[:30]!r} is not a number")
        if len(given) > LONGEST_NUMBER or int(given) > LARGEST:
            raise Refused(413, f"more than {LARGEST:,} bytes")
        left, parts = int(given), []
        deadline = time.monotonic() + BODY_SECONDS
        while left:
            try:
                part = self.rfile.read1(left)
            except TimeoutError:
                part = b""
            if not part or time.monotonic() > deadline:
                raise Refused(408, "the body did not come")
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _send(self, status: int, said: dict[str, Any]) -> None:
        # What may be left of a body that was refused is no request.
        self.close_connection = True
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_said: Any) -> None:
        """Say nothing: what matters is an event."""


class Server(ThreadingHTTPServer):
    """Hears callbacks for an app."""

    daemon_threads = True

    def __init__(self, app: App, host: str, port: int) -> None:
        super().__init__((host, port), Handler)
        self.app = app

    def handle_error(self, _request: Any, _client: Any) -> None:
        """One who has gone meanwhile is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            telemetry.log.exception("a callback failed")


def make_server(app: App, host: str, port: int) -> Server:
    """A server for callbacks; `serve_forever()` runs it."""
    return Server(app, host, port)

"""The callback: an external system tells over HTTP how a task ended.

`POST /callback/{task}` with `Authorization: Bearer {secret}` and `{"ok": true, "result": ...}`. The
secret belongs to that one task. A late or repeated callback is answered like the first.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from windlass.app import App
from windlass.errors import UnknownHandle, WindlassError

LARGEST = 1024 * 1024


def answer(app: App, path: str, authorization: str, body: bytes) -> tuple[int, dict[str, Any]]:
    """The status and the body of the answer to one callback."""
    place, _, number = path.strip("/").rpartition("/")
    secret = authorization.removeprefix("Bearer ").strip()
    if place != "callback" or not number.isdigit():
        return 404, {"error": "there is nothing here; POST /callback/{task}"}
    if not secret:
        return 401, {"error": "give the secret of the task: Authorization: Bearer ..."}
    try:
        told = json.loads(body or b"{}")
    except ValueError as problem:
        return 400, {"error": f"the body is not JSON: {problem}"}
    if not isinstance(told, dict) or not isinstance(told.get("ok"), bool):
        return 400, {"error": 'the body must be {"ok": true or false, "result": ...}'}
    reason = str(told.get("reason") or "")
    try:
        changed = app.external.notify(
            int(number), ok=told["ok"], result=told.get("result"), reason=reason, secret=secret
        )
    except UnknownHandle:
        # Whether the task or the secret is wrong is nobody's business.
        return 404, {"error": "no such task, or not its secret"}
    except WindlassError as problem:
        return 503, {"error": str(problem)}
    return 200, {"changed": changed}


def make_server(app: App, host: str, port: int) -> ThreadingHTTPServer:
    """A server for callbacks; `serve_forever()` runs it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            said = self.headers.get("Content-Length") or "0"
            if not said.isascii() or not said.isdigit():
                self._send(400, {"error": f"Content-Length is {said!r}, not a number of bytes"})
                return
            length = int(said)
            if length > LARGEST:
                self._send(413, {"error": f"more than {LARGEST:,} bytes"})
                return
            authorization = self.headers.get("Authorization", "")
            self._send(*answer(app, self.path, authorization, self.rfile.read(length)))

        def _send(self, status: int, said: dict[str, Any]) -> None:
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_said: Any) -> None:
            return

    return ThreadingHTTPServer((host, port), Handler)

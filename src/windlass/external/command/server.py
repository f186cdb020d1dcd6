"""The HTTP server of `windlass callback`: external systems report how their tasks ended.

`POST /callback/{task}` with `Authorization: Bearer {secret}` and `{"ok": true, "result": ...}`. The
secret belongs to one submission of the task. A late or repeated callback, or a callback about an
earlier submission, gets the same answer and changes nothing.

Strangers can reach this server, so each connection is one request with a bound on its bytes and its
time, and there is a bound on connections. When all places are taken, slow requests give way.
"""

from __future__ import annotations

import io
import json
import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from windlass import telemetry
from windlass.cli.connections import Connections
from windlass.errors import BadInput, UnknownHandle, WindlassError
from windlass.external.operate import Externals, bearer_secret

LARGEST = 1024 * 1024
LARGEST_HEAD = 64 * 1024
LONGEST_NUMBER = 19
# How long a client may send nothing, and how long the whole request may take.
SILENT_SECONDS = 10.0
REQUEST_SECONDS = 30.0
MOST_CONNECTIONS = 64


class BadCallback(Exception):
    """A request that is refused: the HTTP status, and the reason."""


class TooLarge(Exception):
    """The head of a request has too many bytes."""


class RequestReader(io.RawIOBase):
    """Reads one request: at most `allowed` bytes, until a deadline; EOFError if it breaks off."""

    def __init__(self, connection: socket.socket, *, silent_seconds: float) -> None:
        self._connection = connection
        self._silent_seconds = silent_seconds
        self._deadline = time.monotonic() + REQUEST_SECONDS
        self.allowed = LARGEST_HEAD

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        if self.allowed <= 0:
            raise TooLarge
        self._connection.settimeout(min(self._silent_seconds, remaining))
        count = self._connection.recv_into(memoryview(buffer)[: self.allowed])
        if not count:
            raise EOFError
        self.allowed -= count
        return count


class CallbackHandler(BaseHTTPRequestHandler):
    """One connection, and its one request."""

    timeout = SILENT_SECONDS
    server: CallbackServer
    # For an answer to a request that could not be read.
    requestline = ""
    request_version = "HTTP/1.0"

    def setup(self) -> None:
        """Read with bounds."""
        super().setup()
        self._reader = RequestReader(self.connection, silent_seconds=self.timeout)
        self.rfile = io.BufferedReader(self._reader)

    def handle(self) -> None:
        """Answer one request."""
        try:
            self.handle_one_request()
        except TooLarge:
            self._send(431, {"error": f"more than {LARGEST_HEAD:,} bytes before the body"})
        except EOFError:
            return

    def do_POST(self) -> None:
        """Answer a callback."""
        try:
            self._send(200, {"changed": self._notify(self._body())})
        except BadCallback as problem:
            status, reason = problem.args
            self._send(status, {"error": reason})
        except OSError:
            raise
        except Exception:
            telemetry.log.exception("a callback failed")
            self._send(503, {"error": "the result could not be stored; call again"})

    def _notify(self, body: bytes) -> bool:
        place, _, number = self.path.strip("/").rpartition("/")
        is_number = number.isascii() and number.isdigit() and len(number) <= LONGEST_NUMBER
        if place != "callback" or not is_number:
            raise BadCallback(404, "there is nothing here; POST /callback/{task}")
        secret = bearer_secret(self.headers.get("Authorization", ""))
        if secret is None:
            raise BadCallback(401, "give the secret of the task: Authorization: Bearer ...")
        try:
            told = json.loads(body or b"{}")
        except (ValueError, RecursionError) as problem:
            raise BadCallback(400, f"the body is not JSON: {problem}"[:300]) from problem
        if not isinstance(told, dict) or not isinstance(told.get("ok"), bool):
            raise BadCallback(400, 'the body must be {"ok": true or false, "result": ...}')
        ok, result, reason = told["ok"], told.get("result"), str(told.get("reason") or "")
        try:
            return self.server.externals.notify(
                int(number), ok=ok, result=result, reason=reason, secret=secret
            )
        except UnknownHandle:
            # The answer does not tell whether the task or the secret is wrong.
            raise BadCallback(404, "no such task, or not its secret") from None
        except BadInput as problem:
            raise BadCallback(400, str(problem)[:300]) from problem
        except WindlassError as problem:
            raise BadCallback(503, str(problem)) from problem

    def _body(self) -> bytes:
        given = str(self.headers.get("Content-Length", "")).strip()
        if self.headers.get("Transfer-Encoding") is not None or not given:
            raise BadCallback(411, "give the length of the body: Content-Length")
        if not given.isascii() or not given.isdigit():
            raise BadCallback(400, f"Content-Length: {given[:30]!r} is not a number")
        if len(given) > LONGEST_NUMBER or int(given) > LARGEST:
            raise BadCallback(413, f"more than {LARGEST:,} bytes")
        self._reader.allowed = int(given)
        try:
            return self.rfile.read(int(given))
        except (TimeoutError, EOFError):
            raise BadCallback(408, "the body did not come") from None
        finally:
            self.server.connections.heard(self.connection)
            self.connection.settimeout(self.timeout)

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        # The rest of a body that was refused is not another request.
        self.close_connection = True
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_said: Any) -> None:
        """Log nothing: what matters is an event."""


class CallbackServer(ThreadingHTTPServer):
    """Receives callbacks for an app; `serve_forever()` runs it."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, externals: Externals, host: str, port: int) -> None:
        super().__init__((host, port), CallbackHandler)
        self.externals = externals
        self.connections = Connections(MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection once there is a place for it."""
        if self.connections.enter(request, client_address[0]):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        super().shutdown_request(request)
        self.connections.leave(request)

    def shutdown(self) -> None:
        """Stop `serve_forever()`, which may be waiting for a place."""
        self.connections.close()
        super().shutdown()

    def handle_error(self, _request: Any, _client: Any) -> None:
        """Log an error, but not that a client has closed its connection."""
        if not isinstance(sys.exc_info()[1], OSError):
            telemetry.log.exception("a callback failed")

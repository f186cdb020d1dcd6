"""The external services, as a real HTTP server on this machine: slow and unreliable.

GET  /stock/CODE        how many of one product are on hand; there is no call for several
POST /move/ID           pieces that left (fewer than 0) or came, by product; the same ID counts once
POST /refund/ORDER      refund an order; the same order twice counts once
POST /print/JOB         print a catalogue
GET  /print?job=A,B     which of these are printed
POST /inbox             an alert of the shop, as a signed webhook
"""

from __future__ import annotations

import json
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

from windlass.demo.inbox import Inbox
from windlass.demo.inventory import Inventory

SLOWEST_SECONDS = 0.09
FAILED_PERCENT = 2
PRINT_SECONDS = (4.0, 9.0)
INBOX = "/inbox"


class Service(ThreadingHTTPServer):
    """Serves on a thread inside the block."""

    daemon_threads = True
    # A killed worker drops its calls, which is no error here.
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.is_down = False
        self.inventory = Inventory()
        self.inbox = Inbox()
        self.printed_at: dict[str, float] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, name="demo-service", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        del request, client_address

    def answer(
        self, method: str, path: str, query: dict[str, list[str]], body: bytes
    ) -> tuple[int, object]:
        """The status and the body of the answer, after a delay."""
        if self.is_down:
            return 503, {"error": "the inventory is being restarted"}
        time.sleep(random.uniform(0.01, SLOWEST_SECONDS))
        if random.randrange(100) < FAILED_PERCENT:
            return 500, {"error": "deadlock in the inventory, try again"}
        match method, path.strip("/").split("/"):
            case "GET", ["stock", code]:
                return 200, {"code": code, "on_hand": self.inventory.ask(code)}
            case "POST", ["move", movement]:
                return 200, {"moved": self.inventory.move(movement, json.loads(body))}
            case "POST", ["refund", order]:
                return 200, {"order": order, "refunded": True}
            case "POST", ["print", job]:
                self.printed_at.setdefault(job, time.monotonic() + random.uniform(*PRINT_SECONDS))
                return 200, {"job": job}
            case "GET", ["print"]:
                asked = ",".join(query.get("job", [])).split(",")
                now = time.monotonic()
                return 200, {job: self.printed_at.get(job, now) <= now for job in asked}
        return 404, {"error": f"no such thing: {path}"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Send headers and body as one packet: the client would wait for a second one.
    wbufsize = -1
    server: Service

    def do_GET(self) -> None:
        self._answer("GET", b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path == INBOX:
            self._reply(*self.server.inbox.take(dict(self.headers), body))
        else:
            self._answer("POST", body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args

    def _answer(self, method: str, body: bytes) -> None:
        asked = urlsplit(self.path)
        self._reply(*self.server.answer(method, unquote(asked.path), parse_qs(asked.query), body))

    def _reply(self, code: int, answer: object) -> None:
        data = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

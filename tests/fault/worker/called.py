"""A server that tasks of worker processes call, its own log, and the app that they serve."""

import asyncio
import socketserver
import threading
import time
from typing import Any, NamedTuple

from windlass import App, Task

MODULE = """
from tests.fault.worker.called import make_app

app = make_app({url!r}, {port}, {limits!r}).app
"""


class Entry(NamedTuple):
    """A call as the server saw it, on its monotonic clock."""

    began: float
    ended: float


class Server:
    """Answers each call after the time that it asks for, and writes it down.

    A call ends when its answer was sent, or when the caller is gone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.log: list[Entry] = []
        self.now = self.peak = 0
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                began = time.monotonic()
                server.enter()
                seconds = float(self.rfile.readline() or b"0")
                # Another byte, or none: the caller is gone.
                self.request.settimeout(max(0.001, seconds))
                try:
                    self.request.recv(1)
                except TimeoutError:
                    self.wfile.write(b"done\n")
                server.leave(began)

        class Threaded(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 256

        self._server = Threaded(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def enter(self) -> None:
        with self._lock:
            self.now += 1
            self.peak = max(self.peak, self.now)

    def leave(self, began: float) -> None:
        with self._lock:
            self.now -= 1
            self.log.append(Entry(began, time.monotonic()))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Calling(NamedTuple):
    """An app, and its kinds."""

    app: App
    kinds: list[Task]


def make_app(url: str, port: int, limits: dict[str, Any]) -> Calling:
    """An app with two kinds that call the server within its limits."""
    app = App(url, lease="5s", dead_after="2s", grace="10s")
    app.downstream("server", **limits)

    async def call(seconds: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(f"{seconds}\n".encode())
            # The server counts a call as ended before the caller does.
            assert await reader.readline() == b"done\n"
            await reader.read()
        finally:
            writer.close()

    options: dict[str, Any] = {"downstream": "server", "keep": "1h"}
    return Calling(app, [app.task(name=name, **options)(call) for name in ("look", "book")])

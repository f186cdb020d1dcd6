"""The small HTTP server of a worker: `/healthz` and `/readyz`, for tools that supervise processes.

It has threads of its own, so it answers while a handler blocks the event loop. It asks for no
credential: its pages say "ok", or one of a few fixed sentences. Strangers can reach it, so each
connection is one request with a bound on its bytes and its time, and there is a bound on
connections.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple

from windlass import telemetry
from windlass.errors import BadInput, WindlassError

LARGEST_REQUEST = 8 * 1024
REQUEST_SECONDS = 2.0
MOST_CONNECTIONS = 16


class PlainAnswer(NamedTuple):
    """What is answered."""

    status: int
    text: str
    media_type: str = "text/plain; charset=utf-8"


def health_page(problem: str | None) -> PlainAnswer:
    """Whether a process is alive."""
    return PlainAnswer(200, "ok\n") if problem is None else PlainAnswer(503, f"not ok: {problem}\n")


def ready_page(problem: str | None) -> PlainAnswer:
    """Whether a process takes work."""
    return (
        PlainAnswer(200, "ok\n") if problem is None else PlainAnswer(503, f"not ready: {problem}\n")
    )


class Endpoint:
    """Serves pages on `HOST:PORT` until the process ends, or until `close`."""

    def __init__(self, address: str, pages: Mapping[str, Callable[[], PlainAnswer]]) -> None:
        self._pages = pages
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._socket = _listening(address)

    @property
    def address(self) -> str:
        """Where it listens."""
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def start(self) -> None:
        """Answer requests on other threads."""
        threading.Thread(target=self._accept, name="windlass-endpoint", daemon=True).start()
        telemetry.emit("process.serves", address=self.address, pages=" ".join(self._pages))

    def close(self) -> None:
        """Answer no more requests."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                if self._socket.fileno() < 0:
                    return
                # For example too many open files.
                time.sleep(0.1)
                continue
            if not self._places.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                request = _read(connection)
                if request is not None:
                    connection.settimeout(REQUEST_SECONDS)
                    connection.sendall(self._answer(*request))
        except OSError:
            # The client has gone.
            return
        finally:
            self._places.release()

    def _answer(self, method: str, path: str) -> bytes:
        make = self._pages.get(path.partition("?")[0])
        if method not in ("GET", "HEAD"):
            page = PlainAnswer(405, "only GET is answered here\n")
        elif make is None:
            page = PlainAnswer(404, "there is nothing here\n")
        else:
            try:
                page = make()
            except Exception:
                telemetry.log.exception("%s failed", path)
                page = PlainAnswer(500, "not ok: the page could not be made\n")
        body = page.text.encode()
        head = [
            f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}",
            f"Content-Type: {page.media_type}",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        ]
        return "\r\n".join([*head, "", ""]).encode() + (b"" if method == "HEAD" else body)


def _listening(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    name = host.strip("[]")
    if not name or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise BadInput(f"{address!r} is not HOST:PORT; write for example 127.0.0.1:8485")
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((name, int(port)))
        bound.listen(MOST_CONNECTIONS)
    except OSError as problem:
        bound.close()
        why = problem.strerror or problem
        raise WindlassError(f"cannot listen on {address}: {why}; give another address") from None
    return bound


def _read(connection: socket.socket) -> tuple[str, str] | None:
    """The method and the path of the request; None if it does not come in time."""
    deadline = time.monotonic() + REQUEST_SECONDS
    received = b""
    while b"\r\n\r\n" not in received:
        left = deadline - time.monotonic()
        if left <= 0 or len(received) > LARGEST_REQUEST:
            return None
        connection.settimeout(left)
        part = connection.recv(LARGEST_REQUEST)
        if not part:
            return None
        received += part
    words = received.partition(b"\r\n")[0].decode("latin-1").split(" ")
    return (words[0], words[1]) if len(words) == 3 else None

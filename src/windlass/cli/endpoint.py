"""The small HTTP server of a worker: `/healthz` and `/readyz` for supervisors, and `/metrics`.

It has threads of its own, so it answers while a handler blocks the event loop. The pages about
health ask for no credential: they say "ok", or one of a few fixed sentences. Metrics are for this
machine only, or for clients with a token. Strangers can reach the server, so each connection is one
request with a bound on its bytes and its time, and there is a bound on connections. When all places
are taken, slow requests give way.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hmac import compare_digest
from http import HTTPStatus
from typing import NamedTuple

from windlass import telemetry
from windlass.cli.connections import Connections
from windlass.errors import BadInput, WindlassError

LARGEST_REQUEST = 8 * 1024
REQUEST_SECONDS = 2.0
ANSWER_SECONDS = 5.0
SHORTEST_TOKEN = 16
MOST_CONNECTIONS = 16


class PlainAnswer(NamedTuple):
    """What is answered."""

    status: int
    text: str
    media_type: str = "text/plain; charset=utf-8"
    headers: tuple[str, ...] = ()


class Request(NamedTuple):
    """What was asked. The names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class GuardedPage:
    """A page that is not for everyone: for clients with the token; without one, for this machine.

    A browser on this machine may be led here by the name of another site, so that name is checked.
    """

    make: Callable[[], PlainAnswer]
    token: str | None

    def __call__(self, request: Request) -> PlainAnswer:
        """The page, or why it is not answered."""
        if self.token is None:
            if is_loopback(_host(request.headers.get("host", "localhost"))):
                return self.make()
            return PlainAnswer(403, "without a token this page is for this machine only\n")
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        is_right = compare_digest(given.strip().encode(), self.token.encode())
        if scheme.lower() == "bearer" and is_right:
            return self.make()
        text = "send the token of this page: Authorization: Bearer ...\n"
        return PlainAnswer(401, text, headers=("WWW-Authenticate: Bearer",))


def open_page(make: Callable[[], PlainAnswer]) -> Callable[[Request], PlainAnswer]:
    """A page for everyone."""
    return lambda _request: make()


def guarded_page(
    make: Callable[[], PlainAnswer], address: str, token: str | None
) -> Callable[[Request], PlainAnswer]:
    """A page that needs the token. Refuses to serve other machines without one."""
    if token is None and not is_loopback(_host(address)):
        raise BadInput(
            f"--metrics {address}: without a token metrics are served to this machine only; set "
            "one with $WINDLASS_METRICS_TOKEN, or write --metrics 127.0.0.1:PORT"
        )
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise BadInput(
            f"the token of --metrics has {len(token)} characters; give it at least "
            f"{SHORTEST_TOKEN}, as `openssl rand -base64 32` prints them"
        )
    return GuardedPage(make, token)


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

    def __init__(self, address: str, pages: Mapping[str, Callable[[Request], PlainAnswer]]) -> None:
        self._pages = pages
        self._connections = Connections(MOST_CONNECTIONS)
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
        self._connections.close()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, client = self._socket.accept()
            except OSError:
                if self._socket.fileno() < 0:
                    return
                # For example too many open files.
                time.sleep(0.1)
                continue
            if not self._connections.enter(connection, client[0]):
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                request = _read(connection)
                self._connections.heard(connection)
                if request is not None:
                    answer = self._answer(request)
                    connection.settimeout(ANSWER_SECONDS)
                    connection.sendall(answer)
        except OSError:
            # The client has gone.
            return
        finally:
            self._connections.leave(connection)

    def _answer(self, request: Request) -> bytes:
        make = self._pages.get(request.path.partition("?")[0])
        if request.method not in ("GET", "HEAD"):
            page = PlainAnswer(405, "only GET is answered here\n")
        elif make is None:
            page = PlainAnswer(404, "there is nothing here\n")
        else:
            try:
                page = make(request)
            except Exception:
                telemetry.log.exception("%s failed", request.path)
                page = PlainAnswer(500, "not ok: the page could not be made\n")
        body = page.text.encode()
        head = [
            f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}",
            f"Content-Type: {page.media_type}",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
            *page.headers,
        ]
        return "\r\n".join([*head, "", ""]).encode() + (b"" if request.method == "HEAD" else body)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(address: str) -> str:
    """The host of `HOST:PORT`, or of `HOST`."""
    if address.endswith("]") or ":" not in address:
        return address.strip("[]")
    return address.rpartition(":")[0].strip("[]")


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


def _read(connection: socket.socket) -> Request | None:
    """The request; None if it does not come in time, or is not one."""
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
    head = received.partition(b"\r\n\r\n")[0].decode("latin-1")
    first, *lines = head.split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        return None
    headers = {name.strip().lower(): text.strip() for name, _, text in map(_cut, lines)}
    return Request(words[0], words[1], headers)


def _cut(line: str) -> tuple[str, str, str]:
    return line.partition(":")

"""Serving the console: only where that is safe, until a signal."""

from __future__ import annotations

import ipaddress
import logging
import signal
import socket
import threading
from types import TracebackType
from typing import Any

from windlass.errors import BadInput, WindlassError

try:
    import uvicorn
except ModuleNotFoundError:
    raise WindlassError(
        "the console needs uvicorn, which is not installed; run: pip install 'windlass[console]'"
    ) from None

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8484
# Listeners to events are not waited for.
STOP_SECONDS = 1


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_host(host: str, *, has_secret: bool) -> None:
    """Refuse to serve other machines without a secret."""
    if not has_secret and not is_loopback(host):
        raise BadInput(
            f"--host {host}: without a secret the console is served to this machine only; "
            "set one with --secret or $WINDLASS_CONSOLE_SECRET, or leave --host out"
        )


def bind(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 is any free port."""
    name = host.strip("[]")
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    # asyncio sends without delay only if the protocol is named. Otherwise a client that keeps its
    # connection waits 40 ms for the second part of each answer.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((name, port))
    except OSError as problem:
        bound.close()
        why = problem.strerror or problem
        raise WindlassError(f"cannot serve on {host}:{port}: {why}; give another --port") from None
    return bound


def url_of(bound: socket.socket) -> str:
    """The URL of the served console."""
    host, port = bound.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(site: Any, bound: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT."""
    # The server ends at a signal and raises it again, which must not end the process.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    _server(site).run(sockets=[bound])


class Beside:
    """Serves on a thread while the block lasts."""

    def __init__(self, site: Any, bound: socket.socket) -> None:
        self._server = _server(site)
        self._thread = threading.Thread(
            target=self._server.run, args=([bound],), name="windlass-console", daemon=True
        )

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def __enter__(self) -> Beside:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _problem: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        self._thread.join(STOP_SECONDS + 1)


def _server(site: Any) -> uvicorn.Server:
    # Requests are not logged: actions are in the audit log, and URLs may contain private data.
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.WARNING)
    config = uvicorn.Config(
        site,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=STOP_SECONDS,
        lifespan="off",
    )
    return uvicorn.Server(config)

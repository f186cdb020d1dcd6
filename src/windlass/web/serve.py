"""Serving the console: only where that is safe, until a signal."""

from __future__ import annotations

import ipaddress
import logging
import os
import signal
import socket
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from windlass.errors import BadInput, WindlassError
from windlass.web.credential import check_secrets
from windlass.web.proxy import PEER, Proxy

try:
    import uvicorn
    from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
except ModuleNotFoundError:
    raise WindlassError(
        "the console needs uvicorn, which is not installed; run: pip install uvicorn"
    ) from None

# Listeners to events are not waited for.
STOP_SECONDS = 1
START_SECONDS = 60.0

log = logging.getLogger("windlass.web")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_host(
    host: str,
    secret: str | None,
    viewer_secret: str | None = None,
    *,
    proxy: Proxy | None = None,
) -> None:
    """Refuse to serve other machines without a secret or a proxy, or with a short secret."""
    # What a proxy passes on comes from other machines.
    is_local = is_loopback(host) and proxy is None
    if secret is None and proxy is None and not is_local:
        raise BadInput(
            f"--host {host}: without a secret the console is served to this machine only; "
            "set one with --secret or $WINDLASS_CONSOLE_SECRET, or leave --host out"
        )
    check_secrets(secret, viewer_secret, is_local=is_local)


def bind(host: str, port: int, *, or_any: bool = False) -> socket.socket:
    """A bound socket; port 0 is any free port, and so is a used port with `or_any`."""
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
        if or_any:
            return bind(host, 0)
        why = problem.strerror or problem
        raise WindlassError(f"cannot serve on {host}:{port}: {why}; give another --port") from None
    return bound


def url_of(bound: socket.socket) -> str:
    """The URL of the served console."""
    host, port = bound.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def open_browser(bound: socket.socket, where: str) -> None:
    """Open `where` in the browser as soon as the console at `bound` answers."""
    host, port = bound.getsockname()[:2]

    def wait_and_open() -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                socket.create_connection((host, port), timeout=1).close()
            except OSError:
                time.sleep(0.2)
                continue
            if not webbrowser.open(where):
                log.warning("no browser was found; open the address of the console yourself")
            return

    threading.Thread(target=wait_and_open, name="windlass-open", daemon=True).start()


def serve(site: Any, bound: socket.socket, *, proxy: Proxy | None = None) -> None:
    """Serve until SIGTERM or SIGINT; the headers of `proxy` tell where requests come from."""
    # The server ends at a signal and raises it again, which must not end the process.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    _server(site, proxy).run(sockets=[bound])


@contextmanager
def beside(site: Any, bound: socket.socket) -> Iterator[threading.Thread]:
    """Serve on a thread while the block lasts."""
    server = _server(site)
    thread = threading.Thread(
        target=server.run, args=([bound],), name="windlass-console", daemon=True
    )
    thread.start()
    try:
        yield thread
    finally:
        server.should_exit = True
        thread.join(STOP_SECONDS + 1)


def with_peer(site: Any, proxy: Proxy | None = None) -> Any:
    """An application that knows the TCP peer of a request, also behind a proxy.

    X-Forwarded-For replaces the address of the client only from proxies of this machine, as it does
    in uvicorn, and from `proxy`.
    """
    near = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1")
    own = [] if proxy is None else [str(network) for network in proxy.networks]
    behind = ProxyHeadersMiddleware(site, ",".join([near, *own]) if near != "*" else near)

    async def noting_peer(scope: Any, receive: Any, send: Any) -> None:
        told: Any = {**scope, PEER: scope.get("client")}
        await behind(told, receive, send)

    return noting_peer


def _server(site: Any, proxy: Proxy | None = None) -> uvicorn.Server:
    # Requests are not logged: actions are in the audit log, and URLs may contain private data.
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.WARNING)
    config = uvicorn.Config(
        with_peer(site, proxy),
        proxy_headers=False,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=STOP_SECONDS,
        lifespan="off",
    )
    return uvicorn.Server(config)

"""Membership by ZooKeeper: an ephemeral node for each worker, and a watch on their folder.

A stay is one session of ZooKeeper, or several if sessions run out. kazoo keeps the connection and
calls back on its own threads, which must not block. So the callbacks only note what happened and
wake the thread of the stay, which makes the node, lists the others, and watches again.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl

from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.ring.member.address import Address, Tls
from windlass.core.ring.member.base import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    Broken,
    LiveWorkers,
    Seat,
    in_short,
    pause_after,
    workers_in,
)

LEAST_SESSION_SECONDS = 1.0
SESSION_PER_DEAD_AFTER = 0.8
CALL_SECONDS = 2.0
LOOK_SECONDS = 0.5

# Our own events report connection problems; kazoo would log them again at each try.
LOG = logging.getLogger("windlass.kazoo")
LOG.setLevel(logging.CRITICAL)


class ZooKeeperStay:
    """Keeps one node alive, and watches all others."""

    def __init__(self, address: Address, seat: Seat, live: LiveWorkers, *, dead_after: int) -> None:
        self._address = address
        self._seat = seat
        self._live = live
        # kazoo's own chroot needs a root that already exists.
        self._folder = address.root + seat.folder
        self._key = address.root + seat.key
        wanted_seconds = SESSION_PER_DEAD_AFTER * dead_after / SECOND
        self._session_seconds = max(LEAST_SESSION_SECONDS, wanted_seconds)
        self._node_of: int | None = None
        self._was_cut = False
        self._problem = "no connection"
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="windlass-members", daemon=True)
        self.entered = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def end(self, timeout: float) -> None:
        self._ending.set()
        self._wake.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        failures = 0
        while not self._ending.is_set():
            client = self._client()
            try:
                self._serve(client)
            except Exception as problem:
                failures += 1
                self._lose(in_short(problem))
                self._ending.wait(pause_after(failures))
            finally:
                _stop(client)
                self._was_cut = False

    def _client(self) -> Any:
        retry = KazooRetry(
            max_tries=-1,
            delay=FIRST_PAUSE_SECONDS,
            max_delay=LONGEST_PAUSE_SECONDS,
            interrupt=self._ending.is_set,
        )
        hosts = ",".join(f"{host}:{port}" for host, port in self._address.hosts)
        tls, user, password = self._address.tls, self._address.user, self._address.password
        client = KazooClient(
            hosts,
            timeout=self._session_seconds,
            connection_retry=retry,
            logger=LOG,
            handler=None if tls is None else TlsHandler(tls, self._on_problem),
            auth_data=None if user is None else [("digest", f"{user}:{password}")],
            default_acl=None if user is None else [make_digest_acl(user, password, all=True)],
        )
        client.add_listener(self._on_state)
        return client

    def _serve(self, client: Any) -> None:
        """Returns when the stay must end; raises when this client cannot go on."""
        client.start_async()
        cut_off_since: float | None = None
        failures = 0
        while not self._ending.is_set():
            self._wake.clear()
            pause: float | None = LOOK_SECONDS
            if self._was_cut:
                self._was_cut = False
                self._lose("the connection broke")
            if client.state == KazooState.CONNECTED:
                cut_off_since = None
                try:
                    pause = self._look(client)
                    failures = 0
                except Exception as problem:
                    failures += 1
                    self._lose(self._reason(problem))
                    pause = pause_after(failures)
            elif cut_off_since is None:
                cut_off_since = time.monotonic()
            elif time.monotonic() - cut_off_since > self._session_seconds:
                # Its session has ended, or will soon. And a server that lost its data never accepts
                # a client that has seen newer data: only a new client can connect.
                raise Broken(self._problem)
            self._wake.wait(pause)

    def _look(self, client: Any) -> float | None:
        """Make the node, list the others, and watch; in how many seconds to look again."""
        identity = client.client_id
        if identity is None:
            raise Broken("the connection broke")
        session, _ = identity
        if self._node_of != session:
            self._make_node(client, session)
        workers = self._list(client)
        if self._seat.worker not in workers:
            self._make_node(client, session)
            workers = self._list(client)
        self._live.hear(self._seat, workers, settle_seconds=self._session_seconds)
        self.entered.set()
        return self._live.settle()

    def _list(self, client: Any) -> set[int]:
        names = client.get_children_async(self._folder, watch=self._on_change).get(
            timeout=CALL_SECONDS
        )
        return workers_in(names)

    def _make_node(self, client: Any, session: int) -> None:
        """Make the node in this session, and replace the node of a former session."""
        self._node_of = None
        try:
            client.create_async(self._key, b"", ephemeral=True, makepath=True).get(
                timeout=CALL_SECONDS
            )
        except NodeExistsError:
            found = client.exists_async(self._key).get(timeout=CALL_SECONDS)
            if found is None or found.ephemeralOwner != session:
                self._replace(client)
        self._node_of = session

    def _replace(self, client: Any) -> None:
        # In one transaction, so that no worker lists the folder without it.
        transaction = client.transaction()
        transaction.delete(self._key)
        transaction.create(self._key, b"", ephemeral=True)
        for result in transaction.commit_async().get(timeout=CALL_SECONDS):
            if isinstance(result, NoNodeError):
                raise Broken("the node of the former session is gone")
            if isinstance(result, Exception):
                raise result

    def _reason(self, problem: Exception) -> str:
        if isinstance(problem, NoAuthError):
            return f"{self._folder} belongs to another user, or the password is wrong"
        return in_short(problem)

    def _on_problem(self, problem: Exception) -> None:
        self._problem = f"no connection: {in_short(problem)}"
        if not self.entered.is_set():
            self._live.problem = self._problem

    def _lose(self, why: str) -> None:
        self._live.lose(self._seat, why)

    def _on_state(self, state: str) -> None:
        if state != KazooState.CONNECTED:
            self._was_cut = True
        self._wake.set()

    def _on_change(self, _event: object) -> None:
        self._wake.set()


class TlsHandler(SequentialThreadingHandler):
    """Connects by TLS. kazoo's own way also trusts all public CAs, and delays some answers."""

    def __init__(self, tls: Tls, on_problem: Callable[[Exception], None]) -> None:
        super().__init__()
        self._tls = tls
        self._on_problem = on_problem

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> ssl.SSLSocket:
        try:
            # Read for each connection: certificates are renewed.
            context = ssl.create_default_context(cafile=self._tls.ca)
            if self._tls.cert is not None:
                context.load_cert_chain(self._tls.cert, self._tls.key)
            plain = socket.create_connection(address, timeout)
            try:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return context.wrap_socket(plain, server_hostname=hostname)
            except BaseException:
                plain.close()
                raise
        except OSError as problem:
            self._on_problem(problem)
            raise

    def select(self, readable: Sequence[Any], *others: Any) -> Any:
        # What TLS has already decrypted does not make its socket readable.
        decrypted = [
            each for each in readable if isinstance(each, ssl.SSLSocket) and each.pending()
        ]
        return (decrypted, [], []) if decrypted else super().select(readable, *others)


def _stop(client: Any) -> None:
    """Close the session, so that the node is gone at once, and end kazoo's threads."""
    try:
        client.stop()
        client.close()
    except Exception as problem:
        telemetry.log.debug("a ZooKeeper client did not stop in time: %s", problem)

"""The open connections of a small server: a bounded number, in which slow requests give way."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter

# When all places are taken, requests that have taken longer than this give way.
PATIENCE_SECONDS = 1.0
LOOK_SECONDS = 0.1


class Connections:
    """The open connections: a bounded number, in which slow requests give way to new ones."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._open: set[socket.socket] = set()
        # Those whose request has not come yet: from where, and since when.
        self._awaited: dict[socket.socket, tuple[str, float]] = {}
        self._is_closed = False

    def enter(self, connection: socket.socket, host: str) -> bool:
        """Wait for a place; False if there will be none."""
        with self._changed:
            while len(self._open) >= self._most and not self._is_closed:
                self._end_the_slowest()
                self._changed.wait(LOOK_SECONDS)
            if self._is_closed:
                return False
            self._open.add(connection)
            self._awaited[connection] = host, time.monotonic()
            return True

    def heard(self, connection: socket.socket) -> None:
        """The request has come: from now on it does not give way."""
        with self._changed:
            self._awaited.pop(connection, None)

    def leave(self, connection: socket.socket) -> None:
        with self._changed:
            self._awaited.pop(connection, None)
            self._open.discard(connection)
            self._changed.notify()

    def close(self) -> None:
        """No connection waits for a place any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _end_the_slowest(self) -> None:
        """First the oldest of the host with the most, so that one host cannot take all places."""
        before = time.monotonic() - PATIENCE_SECONDS
        of_host = Counter(host for host, _ in self._awaited.values())
        slow = [
            (-of_host[host], since, connection)
            for connection, (host, since) in self._awaited.items()
            if since < before
        ]
        if slow:
            *_, slowest = min(slow, key=lambda each: each[:2])
            del self._awaited[slowest]
            with contextlib.suppress(OSError):
                slowest.shutdown(socket.SHUT_RDWR)

"""Waking idle workers: at once in the same process, by notification from other processes.

PostgreSQL puts committing transactions that notify in a queue, so notifications are debounced: the
first goes with its own transaction, those that follow within a moment share one a moment later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from windlass.core.loop import Loop
from windlass.database.database import Database
from windlass.database.dialect.base import Executor
from windlass.database.dialect.postgresql import CHANNEL

DEBOUNCE_SECONDS = 0.05
LISTEN_SECONDS = 1.0


class Bell:
    """Rung by an enqueue; heard by the workers of this process and, if it can be, by others."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._rung_at = float("-inf")
        self._timer: threading.Timer | None = None
        self._listeners: set[Callable[[], None]] = set()

    def ring_inside(self, executor: Executor, *, is_ours: bool) -> None:
        """Ring when the transaction commits. In a transaction of ours it may be put off."""
        if self._database.dialect.wakes and (not is_ours or self.is_due()):
            self._database.dialect.notify(executor)

    def is_due(self) -> bool:
        """Whether to ring with the transaction at hand; if not, it rings in a moment by itself."""
        with self._lock:
            now = time.monotonic()
            if now - self._rung_at < DEBOUNCE_SECONDS:
                self._ring_later()
                return False
            self._rung_at = now
            return True

    def ring_here(self) -> None:
        """Wake the workers of this process."""
        for listener in list(self._listeners):
            listener()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever it rings here; returns what ends it."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def close(self) -> None:
        """Ring at once what was put off."""
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            self._ring()

    def _ring_later(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(DEBOUNCE_SECONDS, self._ring_due)
            self._timer.daemon = True
            self._timer.start()

    def _ring_due(self) -> None:
        with self._lock:
            self._timer = None
            self._rung_at = time.monotonic()
        self._ring()

    def _ring(self) -> None:
        try:
            self._database.read(self._database.dialect.notify, tries=1)
        except Exception:
            # A worker that did not hear it looks by itself within a second.
            return


class Listener(Loop):
    """Hears the bell of other processes, on a PostgreSQL connection of its own."""

    name = "listener"

    def __init__(
        self, database: Database, heard: Callable[[], None], *, me: Callable[[], int]
    ) -> None:
        super().__init__()
        self._database = database
        self._heard = heard
        self._me = me

    def tick(self) -> float:
        import psycopg

        url = self._database.url.set(drivername="postgresql").render_as_string(hide_password=False)
        options = self._database.dialect.engine_options(self._database.url)["connect_args"]
        with psycopg.connect(url, autocommit=True, **options) as connection:
            connection.execute(f"listen {CHANNEL}")
            self._heard()
            while not self._stopping:
                for note in connection.notifies(timeout=LISTEN_SECONDS, stop_after=1):
                    if note.payload != str(self._me()):
                        self._heard()
        return 0.0

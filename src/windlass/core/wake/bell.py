"""Waking idle workers: directly in the same process, by a notification in other processes.

Notifications are debounced, because PostgreSQL commits transactions with a notification one after
the other: the first is part of its transaction, those within the next 50 ms share one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from windlass.core.loop import Loop
from windlass.database.database import Database
from windlass.database.dialect.base import Executor

DEBOUNCE_SECONDS = 0.05


class Bell:
    """An enqueue rings it; it wakes the workers of this process and, if possible, of others."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._rung_at = float("-inf")
        self._timer: threading.Timer | None = None
        self._listeners: set[Callable[[], None]] = set()

    def ring_inside(self, executor: Executor, *, is_ours: bool) -> None:
        """Ring when the transaction commits. In our own transactions it may be a little later."""
        if self._database.dialect.wakes and (not is_ours or self.is_due()):
            self._database.dialect.notify(executor)

    def is_due(self) -> bool:
        """Whether to ring with the current transaction. If not, a timer rings in a moment."""
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
        """Call `listener` at every ring in this process; returns a function that ends this."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def close(self) -> None:
        """Ring now if a ring waits."""
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
            # Idle workers look for rows every second anyway.
            return


def listener_of(
    database: Database, heard: Callable[[], None], *, me: Callable[[], int]
) -> Loop | None:
    """The loop that hears other processes; None if the database has no notifications.

    Without it, idle workers look for rows at least once a second.
    """
    if not database.dialect.wakes:
        return None
    from windlass.core.wake.postgresql import Listener

    return Listener(database, heard, me=me)

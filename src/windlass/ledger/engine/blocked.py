"""The queue of requests whose rows are locked by others, so that no other request waits for them.

A transaction of a caller may hold the row of a product for long, and may even wait for the answer
to another request of this process. Requests that need such a row leave the main queue, and so do
later ones that share a row with them. Here each is tried again by itself, in the order of arrival.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from windlass.errors import Blocked
from windlass.ledger.engine.pending import Pending, answer_all
from windlass.ledger.model.ledger import Outcome, Request

LONGEST_SECONDS = 60.0

Execute = Callable[[list[Request]], list[Outcome]]


class BlockedQueue:
    """Tries blocked requests until they are answered or have waited for too long."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self.begin()

    def begin(self) -> None:
        """Start empty, also in a forked process."""
        self._lock = threading.Lock()
        self._waiting: list[Pending] = []
        self._keys: Counter[tuple[str, str]] = Counter()
        self._thread: threading.Thread | None = None

    def shares_a_row(self, pending: Pending) -> bool:
        """Whether a request needs a row that one in this queue needs."""
        return bool(self._keys) and not self._keys.keys().isdisjoint(pending.keys)

    def add(self, pending: Pending) -> None:
        """Queue a request."""
        pending.blocked_since = time.monotonic()
        with self._lock:
            self._waiting.append(pending)
            self._keys.update(pending.keys)
            if self._thread is None:
                thread = threading.Thread(
                    target=self._work, name="windlass-ledger-blocked", daemon=True
                )
                thread.start()
                self._thread = thread

    def close(self) -> None:
        """Wait until the queue is empty."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                waiting = list(self._waiting)
            blocked: set[tuple[str, str]] = set()
            for pending in waiting:
                if blocked.isdisjoint(pending.keys) and not self._try(pending):
                    blocked |= pending.keys

    def _try(self, pending: Pending) -> bool:
        """Whether the request is answered, or has failed."""
        try:
            outcomes = self._execute([pending.request])
        except Blocked as problem:
            since = pending.blocked_since or 0.0
            if time.monotonic() - since < LONGEST_SECONDS:
                return False
            pending.fail(problem)
        except Exception as problem:
            pending.fail(problem)
        else:
            answer_all([pending], outcomes)
        with self._lock:
            self._waiting.remove(pending)
            self._keys -= Counter(pending.keys)
        return True

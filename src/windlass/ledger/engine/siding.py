"""The siding: requests whose rows somebody else holds wait there, and nobody waits behind them.

A transaction of somebody's may hold the row of a product for long, even one that waits for the
answer to another request of this very process. Whatever needs that row leaves the main line, and so
does whatever comes later and shares a row with it. Here they are tried again and again, each by
itself, in the order in which they came.
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

CarryOut = Callable[[list[Request]], list[Outcome]]


class Siding:
    """Tries what is blocked until it goes through, or has waited for too long."""

    def __init__(self, carry_out: CarryOut) -> None:
        self._carry_out = carry_out
        self.begin()

    def begin(self) -> None:
        """Forget everything, as a child by fork must."""
        self._lock = threading.Lock()
        self._parked: list[Pending] = []
        self._keys: Counter[tuple[str, str]] = Counter()
        self._thread: threading.Thread | None = None

    def concerns(self, pending: Pending) -> bool:
        """Whether it shares a row with one that waits here."""
        return bool(self._keys) and not self._keys.keys().isdisjoint(pending.keys)

    def add(self, pending: Pending) -> None:
        """Have it wait here."""
        pending.blocked_since = time.monotonic()
        with self._lock:
            self._parked.append(pending)
            self._keys.update(pending.keys)
            if self._thread is None:
                thread = threading.Thread(
                    target=self._work, name="windlass-ledger-siding", daemon=True
                )
                thread.start()
                self._thread = thread

    def close(self) -> None:
        """Wait until nothing waits here any more."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._parked:
                    self._thread = None
                    return
                parked = list(self._parked)
            blocked: set[tuple[str, str]] = set()
            for pending in parked:
                if blocked.isdisjoint(pending.keys) and not self._try(pending):
                    blocked |= pending.keys

    def _try(self, pending: Pending) -> bool:
        """Whether it is settled, one way or the other."""
        try:
            outcomes = self._carry_out([pending.request])
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
            self._parked.remove(pending)
            self._keys -= Counter(pending.keys)
        return True

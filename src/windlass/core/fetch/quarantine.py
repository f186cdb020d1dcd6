"""Quarantine: a row runs alone before it can fail as poison.

A row that ran when its worker died may have killed it, or may only have run beside the row that
did. So the row gets one more try alone: the worker fetches nothing until it is empty, runs that
row, and then continues. No row fails as poison because of another row.
"""

from __future__ import annotations

import time

PATIENCE = 5.0
LEAVE_ALONE_FOR = 30.0
LAST_RESORT = 300.0


class Quarantine:
    """Decides when to stop fetching so that one row can run alone."""

    def __init__(self) -> None:
        self.is_running = False
        self._wanted_since: float | None = None
        self._first_wanted: float | None = None
        self._tried_at = float("-inf")

    @property
    def is_wanted(self) -> bool:
        """Whether the fetcher must not take other rows now."""
        return self.is_running or self._wanted_since is not None

    def want(self) -> bool:
        """A row waits to run alone; returns whether to try now."""
        now = time.monotonic()
        if now - self._tried_at < LEAVE_ALONE_FOR:
            return False
        self._wanted_since = now
        self._first_wanted = self._first_wanted or now
        return True

    def may_begin(self, *, is_empty: bool) -> bool:
        """Whether the row may start: the worker is empty, or has not been for too long.

        A worker with long runs may never be empty. As a last resort the row runs beside them, but
        no other row starts beside it.
        """
        first = self._first_wanted or time.monotonic()
        return is_empty or time.monotonic() - first > LAST_RESORT

    def stops_waiting(self) -> bool:
        """Whether to stop waiting for an empty worker, and try again later."""
        since = self._wanted_since
        if since is None or time.monotonic() - since < PATIENCE:
            return False
        self._wanted_since, self._tried_at = None, time.monotonic()
        return True

    def found_none(self) -> None:
        """No row waits to run alone."""
        self._wanted_since = self._first_wanted = None
        self._tried_at = time.monotonic()

"""Rows with one life left run alone.

A row that was running when its worker died may be what killed it, or may only have been beside it.
Before such a row is given up as poison it gets one more chance by itself: the worker takes nothing
else until it is empty, runs that row, and goes on. So no innocent row is ever failed for another's
deed.
"""

from __future__ import annotations

import time

PATIENCE = 5.0
LEAVE_ALONE_FOR = 30.0
LAST_RESORT = 300.0


class Quarantine:
    """When to stop taking work so that one row can run by itself."""

    def __init__(self) -> None:
        self.is_running = False
        self._wanted_since: float | None = None
        self._first_wanted: float | None = None
        self._tried_at = float("-inf")

    @property
    def is_wanted(self) -> bool:
        """Whether nothing else may be taken now."""
        return self.is_running or self._wanted_since is not None

    def want(self) -> bool:
        """A row waits to run alone; whether now is the time to try."""
        now = time.monotonic()
        if now - self._tried_at < LEAVE_ALONE_FOR:
            return False
        self._wanted_since = now
        self._first_wanted = self._first_wanted or now
        return True

    def may_begin(self, *, is_empty: bool) -> bool:
        """Whether it may run: nothing else does, or there never was such a moment.

        A worker with long runs may never be empty. As a last resort the row runs beside them, and
        at least nothing begins beside it.
        """
        first = self._first_wanted or time.monotonic()
        return is_empty or time.monotonic() - first > LAST_RESORT

    def loses_patience(self) -> bool:
        """Whether it has waited long enough for this time; then it tries again later."""
        since = self._wanted_since
        if since is None or time.monotonic() - since < PATIENCE:
            return False
        self._wanted_since, self._tried_at = None, time.monotonic()
        return True

    def found_none(self) -> None:
        """No row waits to run alone any more."""
        self._wanted_since = self._first_wanted = None
        self._tried_at = time.monotonic()

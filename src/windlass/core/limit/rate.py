"""Rates of kinds: a worker reserves start times, a quarter of a second at a time."""

from __future__ import annotations

import time

from windlass.clock import SECOND
from windlass.core.limit.store import rate
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.value.rate import HORIZON, Pace, Reserved

ASK_AGAIN_AFTER = SECOND // 20


class Rates:
    """How many tasks this worker may start, for each kind that has a rate.

    A rate is in real time, whatever clock the app uses. Start times are reserved on the database's
    clock and kept here on the monotonic clock, in microseconds.
    """

    def __init__(self, database: Database, *, share: float = 1.0) -> None:
        self._database = database
        # This database's part of each rate, if the app has several.
        self._share = share
        self._per_second: dict[str, float] = {}
        self._paces: dict[str, Pace] = {}
        self._ask_at: dict[str, int] = {}

    def set(self, kind: str, per_second: float | None) -> None:
        """Set the rate of the whole app; None removes it."""
        per_second = None if per_second is None else per_second * self._share
        if per_second == self._per_second.get(kind):
            return
        if per_second is None:
            self._per_second.pop(kind, None)
            return
        self._paces[kind] = Pace()
        self._ask_at[kind] = 0
        self._per_second[kind] = per_second

    def has(self, kind: str) -> bool:
        return kind in self._per_second

    def available(self, kind: str) -> int:
        """How many may start now. Reserves more before they run out."""
        pace, now = self._paces[kind], _monotonic()
        if pace.is_running_out(now) and now >= self._ask_at[kind]:
            reserved = self._reserve(kind)
            if reserved.grant is not None:
                pace.add(reserved.grant)
            else:
                self._ask_at[kind] = max(now + ASK_AGAIN_AFTER, reserved.next_at - HORIZON)
        return pace.available(now)

    def spend(self, kind: str, count: int) -> None:
        if kind in self._per_second:
            self._paces[kind].spend(count)

    def seconds_until_one(self, kind: str) -> float:
        next_at = self._paces[kind].next_at()
        at = self._ask_at[kind] + HORIZON if next_at is None else next_at
        return max(0.0, (at - _monotonic()) / SECOND)

    def _reserve(self, kind: str) -> Reserved:
        per_second, dialect = self._per_second.get(kind), self._database.dialect
        if per_second is None:
            return Reserved(None, _monotonic())

        def work(connection: Connection) -> rate.Measured:
            return rate.reserve(connection, dialect, kind, per_second=per_second)

        measured = self._database.write(work, tries=2)
        return measured.reserved.shifted(measured.monotonic - measured.now)


def _monotonic() -> int:
    return time.monotonic_ns() // 1_000

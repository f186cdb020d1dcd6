"""Reserves the moments of rates in the database."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from windlass.clock import SECOND
from windlass.core.limit import store as limit_store
from windlass.core.limit.permit.guest import Place
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.value.rate import Reserved, reserve

# The database's time is counted from an answer that is not older.
MEASURE_AGAIN_AFTER = 10 * SECOND


class Reservations:
    """What a worker reserves, for each kind or downstream that has a rate."""

    def __init__(self, database: Database, homes: Mapping[str, Place], *, most: int | None) -> None:
        self._database = database
        self._homes = homes
        # How many starts it reserves at once at most.
        self._most = most
        # The last reservation of each and its rate, and when the database's time was asked for it.
        self._last: dict[str, tuple[limit_store.Measured, float]] = {}
        self._measured_at: dict[str, int] = {}

    def reserve(self, kind: str, *, per_second: float, length: int) -> Reserved:
        """Reserve moments, up to `length` microseconds of them, on the monotonic clock."""
        home = self._homes.get(kind)
        database = self._database if home is None else home.database

        def work(connection: Connection) -> limit_store.Measured:
            return limit_store.reserve_starts(
                connection,
                database.dialect,
                kind,
                per_second=per_second,
                length=length,
                most=self._most,
            )

        measured = self._reserve_next(kind, database, per_second, length)
        if measured is None:
            measured = database.write(work, tries=2)
            self._measured_at[kind] = measured.monotonic
        self._last[kind] = measured, per_second
        return measured.reserved.shifted(measured.monotonic - measured.now)

    def _reserve_next(
        self, kind: str, database: Database, per_second: float, length: int
    ) -> limit_store.Measured | None:
        """Reserve by one statement, without a look at the row; None if that was not possible.

        It is if nobody else has reserved since, as with one worker. The database's time is counted
        from its last answer, which is not old.
        """
        last, speed = self._last.pop(kind, (None, 0.0))
        monotonic = time.monotonic_ns() // 1_000
        if last is None or speed != per_second:
            return None
        if monotonic - self._measured_at[kind] > MEASURE_AGAIN_AFTER:
            return None
        now = last.now + monotonic - last.monotonic
        next_at = last.reserved.next_at
        reserved = reserve(next_at, per_second=per_second, now=now, length=length, most=self._most)
        if reserved.grant is None:
            return None
        write = partial(
            limit_store.reserve_next,
            kind=kind,
            last=last,
            reserved=reserved,
            per_second=per_second,
        )
        if not database.single(write, tries=2):
            return None
        return limit_store.Measured(reserved, now, monotonic)

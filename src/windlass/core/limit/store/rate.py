"""Reserves start times of a kind with a rate. Every start has its own time.

The time is the database's clock, read after the row is locked, so the clocks of the workers do not
matter.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from windlass.database.dialect.base import Dialect
from windlass.database.schema import rate
from windlass.value import rate as model
from windlass.value.rate import Reserved


class Measured(NamedTuple):
    """A reservation, and the local monotonic time at the database's `now`."""

    reserved: Reserved
    now: int
    monotonic: int


def reserve(connection: Connection, dialect: Dialect, kind: str, *, per_second: float) -> Measured:
    """Reserve the next free start times for the caller, unless they are too far in the future."""
    query = select(rate.c.next_at, rate.c.per_second).where(rate.c.kind == kind).with_for_update()
    row = connection.execute(query).first()
    if row is None:
        dialect.ensure(connection, rate, kind=kind, next_at=0, per_second=per_second)
        row = connection.execute(query).one()
    now, monotonic = dialect.measure(connection), time.monotonic_ns() // 1_000
    next_at: int = row.next_at
    if row.per_second != per_second:
        # Workers learn the new rate within one slice: reservations at the old rate end then.
        next_at = min(next_at, now + model.SLICE)
    reserved = model.reserve(next_at, per_second=per_second, now=now)
    if reserved.next_at != row.next_at or row.per_second != per_second:
        values = {"next_at": reserved.next_at, "per_second": per_second}
        connection.execute(update(rate).where(rate.c.kind == kind).values(values))
    return Measured(reserved, now, monotonic)

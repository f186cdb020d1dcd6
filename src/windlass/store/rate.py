"""The one clock of a kind with a rate: every start has its moment, and no two share one."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from windlass.model import rate as model
from windlass.model.rate import Reserved
from windlass.store.dialect.base import Dialect
from windlass.store.schema import rate


def reserve(
    connection: Connection, dialect: Dialect, kind: str, *, per_second: float, now: int
) -> Reserved:
    """The next free stretch of starts, for the caller alone, unless it is far off."""
    query = select(rate.c.next_at).where(rate.c.kind == kind).with_for_update()
    next_at = connection.scalar(query)
    if next_at is None:
        dialect.ensure(connection, rate, kind=kind, next_at=0)
        next_at = connection.execute(query).scalar_one()
    reserved = model.reserve(next_at, per_second=per_second, now=now)
    if reserved.next_at != next_at:
        values = {"next_at": reserved.next_at}
        connection.execute(update(rate).where(rate.c.kind == kind).values(values))
    return reserved

"""The rows of limits and permits.

Every change of a permit first takes the fence of its worker, then locks the row of the limit. A row
counts only while its worker has not left. So a worker that is marked dead frees its permits in the
transaction that marks it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Select, delete, select, update

from windlass.core.limit.permit.share import Holding
from windlass.database.dialect.base import Dialect
from windlass.database.schema import limit, permit, worker

MIGRATION = "0007"


class LimitNow(NamedTuple):
    """What a limit is lowered to; None is as declared or set."""

    rate: float | None = None
    concurrency: int | None = None


def lowered(connection: Connection) -> dict[str, LimitNow]:
    """The limits that are lowered now."""
    return {
        row.name: LimitNow(row.rate_now, row.concurrency_now)
        for row in connection.execute(select(limit))
        if row.rate_now is not None or row.concurrency_now is not None
    }


def holdings(connection: Connection, name: str) -> list[Holding]:
    """The permits of workers that have not left."""
    return [_holding(row) for row in connection.execute(_there().where(permit.c.name == name))]


def all_holdings(connection: Connection) -> dict[str, list[Holding]]:
    """The permits of workers that have not left, by name."""
    found: dict[str, list[Holding]] = {}
    for row in connection.execute(_there().order_by(permit.c.name, permit.c.worker)):
        found.setdefault(row.name, []).append(_holding(row))
    return found


def exchange(
    connection: Connection,
    dialect: Dialect,
    name: str,
    *,
    me: int,
    decide: Callable[[list[Holding], int], Holding],
) -> Holding:
    """Set the permits of worker `me` to what `decide` says of those of the others, and the time.

    The caller has taken the fence of its worker.
    """
    query = select(limit.c.name).where(limit.c.name == name).with_for_update()
    if connection.execute(query).first() is None:
        dialect.ensure(connection, limit, name=name)
        connection.execute(query).one()
    now = dialect.measure(connection)
    found = holdings(connection, name)
    others = [each for each in found if each.worker != me]
    after = decide(others, now)
    if len(others) == len(found):
        dialect.ensure(connection, permit, name=name, worker=me, seen_at=now)
    values = {
        "held": after.held,
        "wanted": after.wanted,
        "waits_since": after.waits_since,
        "seen_at": after.seen_at,
    }
    mine = permit.c.name == name, permit.c.worker == me
    connection.execute(update(permit).where(*mine).values(values))
    return after


def forget(connection: Connection, *, limit: int) -> int:
    """Delete the permits of workers that have left; how many."""
    there = select(worker.c.id).where(worker.c.left_at.is_(None))
    query = select(permit.c.name, permit.c.worker).where(permit.c.worker.not_in(there))
    gone = connection.execute(query.limit(limit)).all()
    for name, number in gone:
        mine = permit.c.name == name, permit.c.worker == number
        connection.execute(delete(permit).where(*mine))
    return len(gone)


def _holding(row: Row[Any]) -> Holding:
    return Holding(row.worker, row.held, row.wanted, row.waits_since, row.seen_at)


def _there() -> Select[Any]:
    columns = permit.c.worker, permit.c.held, permit.c.wanted, permit.c.waits_since
    return (
        select(permit.c.name, *columns, permit.c.seen_at)
        .join(worker, worker.c.id == permit.c.worker)
        .where(worker.c.left_at.is_(None))
    )

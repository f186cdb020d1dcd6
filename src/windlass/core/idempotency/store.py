"""The SQL of idempotency keys: which requests were answered, and how."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, delete, select, update

from windlass.core.face import Tidying
from windlass.database.database import has_tables
from windlass.database.dialect.base import Dialect
from windlass.database.schema import idempotency

TABLES = "0014"
AT_ONCE = 500


class Answered(NamedTuple):
    """What is known of a key: the hash of its request, and the answer."""

    content: str
    answer: str | None


def take(
    connection: Connection, dialect: Dialect, key: str, *, content: str, forget_at: int
) -> Answered | None:
    """Take a key for this transaction; what is known of it if it was taken before.

    A transaction that has the key and has not ended is waited for.
    """
    dialect.ensure(connection, idempotency, id=key, content="", forget_at=forget_at)
    columns = idempotency.c.content, idempotency.c.answer
    row = connection.execute(
        select(*columns).where(idempotency.c.id == key).with_for_update()
    ).one()
    if row.content:
        return Answered(row.content, row.answer)
    connection.execute(update(idempotency).where(idempotency.c.id == key).values(content=content))
    return None


def keep(connection: Connection, key: str, answer: str) -> None:
    """Keep the answer to the request that has this key."""
    connection.execute(update(idempotency).where(idempotency.c.id == key).values(answer=answer))


def prune(tidying: Tidying) -> int:
    """Forget keys whose time is over; how many."""
    connection = tidying.connection
    if not has_tables(connection, TABLES):
        return 0
    query = select(idempotency.c.id).where(idempotency.c.forget_at < tidying.now)
    old = connection.scalars(query.order_by(idempotency.c.forget_at).limit(tidying.limit)).all()
    for begin in range(0, len(old), AT_ONCE):
        some = sorted(old[begin : begin + AT_ONCE])
        connection.execute(delete(idempotency).where(idempotency.c.id.in_(some)))
    return len(old)

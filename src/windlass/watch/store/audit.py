"""The SQL of the audit log."""

from __future__ import annotations

from sqlalchemy import Connection, and_, delete, insert, or_, select, update

from windlass.database.schema import audit
from windlass.watch.model import AuditEntry

KEPT = 100_000


def begin(connection: Connection, entry: AuditEntry) -> None:
    """Write down an action that is about to begin."""
    connection.execute(insert(audit).values({**vars(entry), "ok": None}))


def end(connection: Connection, number: int, *, ok: bool, outcome: str) -> None:
    """Write down the outcome."""
    connection.execute(
        update(audit).where(audit.c.id == number).values(ok=int(ok), outcome=outcome)
    )


def listing(
    connection: Connection,
    *,
    limit: int,
    before: tuple[int, int] | None = None,
    who: str | None = None,
    about: str | None = None,
) -> list[AuditEntry]:
    """The last entries, newest first; `before` is when and which the page before ends with."""
    newest = audit.c.acted_at.desc(), audit.c.id.desc()
    query = select(audit).order_by(*newest).limit(limit)
    for column, wanted in ((audit.c.who, who), (audit.c.about, about)):
        if wanted is not None:
            query = query.where(column == wanted)
    if before is not None:
        acted_at, number = before
        same = and_(audit.c.acted_at == acted_at, audit.c.id < number)
        query = query.where(audit.c.acted_at <= acted_at)
        query = query.where(or_(audit.c.acted_at < acted_at, same))
    rows = connection.execute(query).mappings()
    return [
        AuditEntry(**{**row, "ok": None if row["ok"] is None else bool(row["ok"])}) for row in rows
    ]


def prune(connection: Connection) -> int:
    """Delete the oldest entries where there are more than are kept; how many."""
    over = connection.scalar(
        select(audit.c.acted_at).order_by(audit.c.acted_at.desc()).offset(KEPT).limit(1)
    )
    if over is None:
        return 0
    return connection.execute(delete(audit).where(audit.c.acted_at <= over)).rowcount

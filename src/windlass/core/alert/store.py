"""Raises alerts and prunes old ones.

An alert never changes. `windlass.watch` shows alerts and records acknowledgements.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, update

from windlass.database.schema import acknowledgement, alert

KEEP = 30 * 24 * 60 * 60 * 1_000_000
# Alerts that a problem is over, and the alert of that problem.
ENDS = {"breaker closed": "breaker opened"}


def write_alert(
    connection: Connection,
    number: int,
    *,
    what: str,
    kind: str | None,
    text: str,
    now: int,
    task_id: int | None = None,
) -> None:
    """Raise an alert under a new number."""
    values = {"what": what, "kind": kind, "task_id": task_id, "raised_at": now, "text": text}
    connection.execute(insert(alert).values(id=number, **values))
    # After a step back of the clock: nobody has seen this alert yet.
    connection.execute(
        update(acknowledgement)
        .where(acknowledgement.c.what == what, acknowledgement.c.kind == (kind or ""))
        .where(acknowledgement.c.seen_at >= now)
        .values(seen_at=now - 1)
    )
    if what in ENDS:
        # A person who silenced the alert meant this problem, not the next one.
        connection.execute(
            update(acknowledgement)
            .where(acknowledgement.c.what == ENDS[what], acknowledgement.c.kind == kind)
            .where(acknowledgement.c.quiet_until > now)
            .values(seen_at=now, quiet_until=None)
        )


def prune(connection: Connection, *, now: int) -> int:
    """Delete alerts and acknowledgements older than 30 days; returns how many alerts."""
    old = acknowledgement.c.seen_at < now - KEEP
    connection.execute(delete(acknowledgement).where(old))
    return connection.execute(delete(alert).where(alert.c.raised_at < now - KEEP)).rowcount

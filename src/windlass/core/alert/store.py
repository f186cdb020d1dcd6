"""Raising alerts, and forgetting old ones.

An alert is something that happened, and is never changed. `windlass.watch.alert` shows alerts to
people and remembers what they acknowledged.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, update

from windlass.database.schema import acknowledgement, alert

KEEP = 30 * 24 * 60 * 60 * 1_000_000
# Alerts that tell of the end of a trouble are never open.
ENDS = {"breaker closed": "breaker opened"}


def write_alert(
    connection: Connection,
    number: int,
    *,
    what: str,
    kind: str,
    text: str,
    now: int,
    task_id: int | None = None,
) -> None:
    """Raise an alert, under a number of its own. Every alert is raised here."""
    values = {"what": what, "kind": kind, "task_id": task_id, "raised_at": now, "text": text}
    connection.execute(insert(alert).values(id=number, **values))
    if what in ENDS:
        # A person who asked for an hour of quiet meant this trouble, not the next one.
        connection.execute(
            update(acknowledgement)
            .where(acknowledgement.c.what == ENDS[what], acknowledgement.c.kind == kind)
            .where(acknowledgement.c.quiet_until > now)
            .values(seen_at=now, quiet_until=None)
        )


def prune(connection: Connection, *, now: int) -> int:
    """Delete alerts and acknowledgements that are older than 30 days; how many alerts."""
    old = acknowledgement.c.seen_at < now - KEEP
    connection.execute(delete(acknowledgement).where(old))
    return connection.execute(delete(alert).where(alert.c.raised_at < now - KEEP)).rowcount

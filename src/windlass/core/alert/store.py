"""Alerts, and who has seen them.

An alert is something that happened, and is never changed. What a person acknowledges is a trouble:
all alerts of one sort and one kind up to now, or for a while. So one word quiets the fortieth of
them like the first, and what happens after it is told again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, insert, select, update

from windlass.database.dialect.base import Dialect
from windlass.database.schema import acknowledgement, alert

KEEP = 30 * 24 * 60 * 60 * 1_000_000
# What tells of the end of a trouble asks nothing of anybody.
ENDS = {"breaker closed": "breaker opened"}


@dataclass(frozen=True)
class AlertView:
    """One alert, and who has seen it. It is open until somebody has."""

    id: int
    what: str
    kind: str | None
    task_id: int | None
    raised_at: int
    text: str
    is_open: bool
    seen_by: str | None
    seen_at: int | None
    quiet_until: int | None


@dataclass(frozen=True)
class Seen:
    """Who has seen the alerts of a sort and a kind: those up to then, or all for a while."""

    who: str
    seen_at: int
    quiet_until: int | None

    def quiets(self, raised_at: int, *, now: int) -> bool:
        """Whether an alert of that moment asks for nobody."""
        if self.quiet_until is None:
            return raised_at <= self.seen_at
        return now < self.quiet_until


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
        # Who wanted quiet for an hour wanted it from this trouble, and not from the next one.
        connection.execute(
            update(acknowledgement)
            .where(acknowledgement.c.what == ENDS[what], acknowledgement.c.kind == kind)
            .where(acknowledgement.c.quiet_until > now)
            .values(seen_at=now, quiet_until=None)
        )


def listing(connection: Connection, *, limit: int, now: int) -> list[AlertView]:
    """The last alerts, newest first, each with who has seen it."""
    seen = _seen(connection)
    newest = alert.c.raised_at.desc(), alert.c.id.desc()
    rows = connection.execute(_alerts().order_by(*newest).limit(limit))
    return [_view(row, seen, now=now) for row in rows]


def get(connection: Connection, number: int, *, now: int) -> AlertView | None:
    """One alert."""
    row = connection.execute(_alerts().where(alert.c.id == number)).first()
    return None if row is None else _view(row, _seen(connection), now=now)


def acknowledge(
    connection: Connection, dialect: Dialect, what: str, kind: str | None, seen: Seen
) -> None:
    """Somebody has seen the alerts of a sort and a kind."""
    place, values = {"what": what, "kind": kind or ""}, vars(seen)
    dialect.ensure(connection, acknowledgement, **place, **values)
    connection.execute(update(acknowledgement).where(*_at(what, kind)).values(values))


def recall(connection: Connection, what: str, kind: str | None) -> bool:
    """Nobody has seen them after all; whether somebody had."""
    return bool(connection.execute(delete(acknowledgement).where(*_at(what, kind))).rowcount)


def prune(connection: Connection, *, now: int) -> int:
    """Delete old alerts and acknowledgements; how many alerts."""
    old = acknowledgement.c.seen_at < now - KEEP
    connection.execute(delete(acknowledgement).where(old))
    return connection.execute(delete(alert).where(alert.c.raised_at < now - KEEP)).rowcount


def _alerts() -> Select[Any]:
    return select(
        alert.c.id, alert.c.what, alert.c.kind, alert.c.task_id, alert.c.raised_at, alert.c.text
    )


def _seen(connection: Connection) -> dict[tuple[str, str], Seen]:
    rows = connection.execute(select(acknowledgement))
    return {(row.what, row.kind): Seen(row.who, row.seen_at, row.quiet_until) for row in rows}


def _view(row: Row[Any], seen: dict[tuple[str, str], Seen], *, now: int) -> AlertView:
    found = seen.get((row.what, row.kind or ""))
    if found is not None and not found.quiets(row.raised_at, now=now):
        found = None
    return AlertView(
        id=row.id,
        what=row.what,
        kind=row.kind,
        task_id=row.task_id,
        raised_at=row.raised_at,
        text=row.text,
        is_open=found is None and row.what not in ENDS,
        seen_by=None if found is None else found.who,
        seen_at=None if found is None else found.seen_at,
        quiet_until=None if found is None else found.quiet_until,
    )


def _at(what: str, kind: str | None) -> tuple[Any, Any]:
    return acknowledgement.c.what == what, acknowledgement.c.kind == (kind or "")

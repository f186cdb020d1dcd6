"""The SQL of listing and acknowledging alerts."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, Select, delete, select, update

from windlass.core.alert.store import ENDS
from windlass.database.dialect.base import Dialect
from windlass.database.schema import acknowledgement, alert
from windlass.watch.alert.model import Acknowledgement, AlertView


def listing(connection: Connection, *, limit: int, now: int) -> list[AlertView]:
    """The last alerts, newest first."""
    seen = _seen(connection)
    newest = alert.c.raised_at.desc(), alert.c.id.desc()
    rows = connection.execute(_alerts().order_by(*newest).limit(limit))
    return [_view(row, seen, now=now) for row in rows]


def get(connection: Connection, number: int, *, now: int) -> AlertView | None:
    """One alert."""
    row = connection.execute(_alerts().where(alert.c.id == number)).first()
    return None if row is None else _view(row, _seen(connection), now=now)


def acknowledge(
    connection: Connection, dialect: Dialect, what: str, kind: str | None, seen: Acknowledgement
) -> None:
    """Acknowledge the alerts of a sort and a kind."""
    place, values = {"what": what, "kind": kind or ""}, vars(seen)
    dialect.ensure(connection, acknowledgement, **place, **values)
    connection.execute(update(acknowledgement).where(*_at(what, kind)).values(values))


def recall(connection: Connection, what: str, kind: str | None) -> bool:
    """Take an acknowledgement back; whether there was one."""
    return bool(connection.execute(delete(acknowledgement).where(*_at(what, kind))).rowcount)


def _alerts() -> Select[Any]:
    return select(
        alert.c.id, alert.c.what, alert.c.kind, alert.c.task_id, alert.c.raised_at, alert.c.text
    )


def _seen(connection: Connection) -> dict[tuple[str, str], Acknowledgement]:
    rows = connection.execute(select(acknowledgement))
    return {
        (row.what, row.kind): Acknowledgement(row.who, row.seen_at, row.quiet_until) for row in rows
    }


def _view(row: Row[Any], seen: dict[tuple[str, str], Acknowledgement], *, now: int) -> AlertView:
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

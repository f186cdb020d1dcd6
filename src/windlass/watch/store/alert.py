"""The SQL of listing and acknowledging alerts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from sqlalchemy import (
    Connection,
    RowMapping,
    Select,
    delete,
    func,
    literal,
    null,
    select,
    update,
)

from windlass.core.alert.model import SEVERITIES, Severity
from windlass.core.alert.store import ENDS, TABLES
from windlass.database.database import has_tables
from windlass.database.dialect.base import Dialect, force_index
from windlass.database.schema import acknowledgement, alert, trouble
from windlass.watch.model import Acknowledgement, AlertView, SeverityName
from windlass.watch.store.watch import TroubleRow

# A worker of the release before writes alerts without their state.
ALERTS = select(
    alert.c.id,
    alert.c.what,
    alert.c.kind,
    alert.c.task_id,
    alert.c.raised_at,
    func.coalesce(trouble.c.text, alert.c.text).label("text"),
    trouble.c.severity,
    func.coalesce(trouble.c.times, 1).label("times"),
    func.coalesce(trouble.c.last_at, alert.c.raised_at).label("last_at"),
    trouble.c.resolved_at,
    trouble.c.resolution,
).select_from(alert.outerjoin(trouble, trouble.c.alert_id == alert.c.id))

# Tables of release 0.1.0 have no state of alerts.
BARE_ALERTS = select(
    *(alert.c.id, alert.c.what, alert.c.kind, alert.c.task_id, alert.c.raised_at, alert.c.text),
    null().label("severity"),
    literal(1).label("times"),
    alert.c.raised_at.label("last_at"),
    null().label("resolved_at"),
    null().label("resolution"),
)


def listing(connection: Connection, *, limit: int, now: int) -> list[AlertView]:
    """The last alerts, newest first."""
    seen = _seen(connection)
    newest = alert.c.raised_at.desc(), alert.c.id.desc()
    # Without this, MySQL may join all alerts with their state and then sort them.
    query = force_index(_alerts(connection), alert, "windlass_alert_raised")
    rows = connection.execute(query.order_by(*newest).limit(limit)).mappings()
    return [_view(row, seen, now=now) for row in rows]


def get(connection: Connection, number: int, *, now: int) -> AlertView | None:
    """One alert."""
    return next(iter(get_all(connection, [number], now=now)), None)


def get_all(connection: Connection, numbers: Sequence[int], *, now: int) -> list[AlertView]:
    """These alerts, without those that were pruned."""
    rows = connection.execute(_alerts(connection).where(alert.c.id.in_(numbers))).mappings().all()
    seen = _seen(connection) if rows else {}
    return [_view(row, seen, now=now) for row in rows]


def acknowledge(
    connection: Connection, dialect: Dialect, what: str, kind: str | None, seen: Acknowledgement
) -> None:
    """Acknowledge the alerts of a sort and a kind."""
    place, values = {"what": what, "kind": kind or ""}, vars(seen)
    dialect.ensure(connection, acknowledgement, **place, **values)
    connection.execute(update(acknowledgement).where(*_at(what, kind)).values(values))


def recall(connection: Connection, what: str, kind: str | None) -> None:
    """Take an acknowledgement back."""
    connection.execute(delete(acknowledgement).where(*_at(what, kind)))


def _alerts(connection: Connection) -> Select[Any]:
    return ALERTS if has_tables(connection, TABLES) else BARE_ALERTS


def is_acknowledged(connection: Connection, rows: Iterable[TroubleRow], *, now: int) -> set[int]:
    """The alerts that a person has acknowledged."""
    seen = _seen(connection)
    found = ((row, seen.get((row.what, row.kind or ""))) for row in rows)
    return {
        row.alert_id
        for row, known in found
        if known is not None and known.quiets(row.last_at, now=now)
    }


def _seen(connection: Connection) -> dict[tuple[str, str], Acknowledgement]:
    rows = connection.execute(select(acknowledgement))
    return {
        (row.what, row.kind): Acknowledgement(row.who, row.seen_at, row.quiet_until) for row in rows
    }


def _view(row: RowMapping, seen: dict[tuple[str, str], Acknowledgement], *, now: int) -> AlertView:
    found = seen.get((row["what"], row["kind"] or ""))
    if found is not None and not found.quiets(row["last_at"], now=now):
        found = None
    severity = row["severity"]
    if severity is None:
        severity = SEVERITIES.get(row["what"], Severity.WARNING)
    is_over = row["what"] in ENDS or row["resolved_at"] is not None
    return AlertView(
        **{**row, "severity": cast(SeverityName, str(Severity(severity)))},
        is_open=found is None and not is_over,
        seen_by=None if found is None else found.who,
        seen_at=None if found is None else found.seen_at,
        quiet_until=None if found is None else found.quiet_until,
    )


def _at(what: str, kind: str | None) -> tuple[Any, Any]:
    return acknowledgement.c.what == what, acknowledgement.c.kind == (kind or "")

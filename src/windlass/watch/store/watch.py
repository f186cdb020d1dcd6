"""What watchers read, and what they know together: turns, counts, and what was delivered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, func, or_, select, update

from windlass.database.dialect.base import Dialect
from windlass.database.schema import alert as alert_table
from windlass.database.schema import control, failure, stat, task, trouble, watch
from windlass.value.status import Status

RUNS_READ = 100
DELIVERIES_READ = 200


class MinuteTally(NamedTuple):
    """What ended of a kind in one minute."""

    minute: int
    kind: str
    done: int
    failed: int


class Told(msgspec.Struct, frozen=True):
    """What was delivered last to a channel: the stage, and when."""

    stage: str
    at: int


class TroubleRow(NamedTuple):
    """An alert as its delivery needs it."""

    alert_id: int
    what: str
    kind: str | None
    severity: int
    raised_at: int
    last_at: int
    resolved_at: int | None
    cause: str | None
    told: dict[str, Told]


def take_turn(
    connection: Connection, dialect: Dialect, name: str, *, now: int, until: int
) -> str | None:
    """Take the turn of `name` until `until`; its state, or None if it is another's turn.

    A turn that is far in the future was written before the clock was set back.
    """
    dialect.ensure(connection, watch, name=name, due_at=0, state="{}")
    is_due = or_(watch.c.due_at <= now, watch.c.due_at > now + 2 * (until - now))
    taken = connection.execute(
        update(watch).where(watch.c.name == name, is_due).values(due_at=until)
    )
    if not taken.rowcount:
        return None
    return str(connection.scalar(select(watch.c.state).where(watch.c.name == name)))


def end_turn(connection: Connection, name: str) -> None:
    """Another watcher may take the turn now."""
    connection.execute(update(watch).where(watch.c.name == name).values(due_at=0))


def keep_state(connection: Connection, name: str, state: str) -> None:
    """Write what the watcher of this turn knows."""
    connection.execute(update(watch).where(watch.c.name == name).values(state=state))


def tallies(connection: Connection, *, since: int) -> list[MinuteTally]:
    """What ended since that minute, by minute and kind."""
    rows = connection.execute(
        select(stat.c.minute, stat.c.kind, func.sum(stat.c.done), func.sum(stat.c.failed))
        .where(stat.c.minute >= since)
        .group_by(stat.c.minute, stat.c.kind)
    )
    return [MinuteTally(minute, kind, int(done), int(bad)) for minute, kind, done, bad in rows]


def last_error(connection: Connection, kind: str) -> str | None:
    """The last error of a kind."""
    newest = select(failure.c.error).where(failure.c.kind == kind).order_by(failure.c.id.desc())
    return connection.scalar(newest.limit(1))


def oldest_due(
    connection: Connection, dialect: Dialect, until: Mapping[str, int]
) -> dict[str, int]:
    """The kinds with waiting rows that are due by `until`, and when the oldest became due."""
    found: dict[str, int] = {}
    for tier in dialect.tiers(connection, list(until)):
        if tier.due_at <= until[tier.kind]:
            found[tier.kind] = min(tier.due_at, found.get(tier.kind, tier.due_at))
    return found


def failed_runs(connection: Connection, *, since: int) -> list[tuple[str, str, str | None]]:
    """Control runs whose last try failed: name, partition, error."""
    rows = connection.execute(
        select(control.c.name, control.c.partition_id, control.c.error)
        .where(control.c.status == -1, control.c.end_time >= since)
        .limit(RUNS_READ)
    )
    return [(name, partition, error) for name, partition, error in rows]


def late_runs(connection: Connection, *, now: int) -> list[tuple[str, str, int]]:
    """Control runs that should have ended: name, partition, since when."""
    rows = connection.execute(
        select(control.c.name, control.c.partition_id, control.c.expire_time)
        .where(control.c.status == 8, control.c.expire_time < now)
        .limit(RUNS_READ)
    )
    return [(name, partition, expired) for name, partition, expired in rows]


def due_tasks(connection: Connection, kind: str, *, now: int, limit: int) -> list[int]:
    """The oldest rows of a kind that are due and not claimed: waiting, or abandoned."""
    states = (Status.WAITING, Status.RUNNING)
    return list(
        connection.scalars(
            select(task.c.id)
            .where(task.c.status.in_(states), task.c.batch.is_(None))
            .where(task.c.kind == kind, task.c.due_at <= now)
            .order_by(task.c.due_at)
            .limit(limit)
        )
    )


def troubles(connection: Connection, *, resolved_since: int) -> list[TroubleRow]:
    """Open alerts, and those that were resolved since then, with what was delivered of them."""
    rows = connection.execute(
        select(
            trouble.c.alert_id,
            alert_table.c.what,
            alert_table.c.kind,
            trouble.c.severity,
            alert_table.c.raised_at,
            trouble.c.last_at,
            trouble.c.resolved_at,
            trouble.c.cause,
            trouble.c.told,
        )
        .join(alert_table, alert_table.c.id == trouble.c.alert_id)
        .where(or_(trouble.c.cause.is_not(None), trouble.c.resolved_at >= resolved_since))
        # Open ones first: what ended must not push out what goes on.
        .order_by(trouble.c.cause.is_(None), trouble.c.resolved_at.desc())
        .limit(DELIVERIES_READ)
    )
    return [TroubleRow(*row[:-1], told=_told(row[-1])) for row in rows]


def change_severity(connection: Connection, alert_id: int, severity: int) -> None:
    """The app judges an alert differently."""
    changed = update(trouble).where(trouble.c.alert_id == alert_id)
    connection.execute(changed.values(severity=int(severity)))


def keep_told(connection: Connection, told: Mapping[int, Mapping[str, Told]]) -> None:
    """Write what was delivered of alerts, by alert and channel."""
    for alert_id, by_channel in sorted(told.items()):
        text = msgspec.json.encode(by_channel).decode()
        connection.execute(update(trouble).where(trouble.c.alert_id == alert_id).values(told=text))


def _told(stored: str | None) -> dict[str, Told]:
    return {} if stored is None else msgspec.json.decode(stored, type=dict[str, Told])

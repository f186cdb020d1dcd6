"""The SQL of the marks: cheap reads that differ when something has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select
from sqlalchemy.exc import SQLAlchemyError

from windlass.core.finish.store import MINUTE
from windlass.database import schema
from windlass.errors import WindlassError
from windlass.flow.store import page as flow_page

MOST_GOING = 500
# What reading the marks may raise, also if the tables are not there yet.
UNREADABLE = (SQLAlchemyError, WindlassError)


def tasks(connection: Connection, now: int) -> Sequence[Any]:
    """The newest row, and what was done in the last two minutes."""
    stat = schema.stat.c
    done = select(
        func.count(), func.sum(stat.done), func.sum(stat.failed), func.sum(stat.retried)
    ).where(stat.minute >= now // MINUTE - 1)
    return _last(connection, schema.task.c.id), _all(connection, done)


def failures(connection: Connection, _now: int) -> Sequence[Any]:
    """The newest one."""
    return (_last(connection, schema.failure.c.id),)


def alerts(connection: Connection, now: int) -> Sequence[Any]:
    """The newest alert, all acknowledgements, and which of them are over."""
    alert, seen = schema.alert.c, schema.acknowledgement.c
    newest = select(alert.id, alert.raised_at).order_by(alert.raised_at.desc()).limit(1)
    quiet = select(seen.what, seen.kind, seen.seen_at, seen.quiet_until)
    return _all(connection, newest), [
        (*row, row[3] is not None and row[3] <= now)
        for row in _all(connection, quiet.order_by(seen.what, seen.kind))
    ]


def switches(connection: Connection, _now: int) -> Sequence[Any]:
    """All of them."""
    return _all(connection, select(schema.switch).order_by(schema.switch.c.kind))


def workers(connection: Connection, _now: int) -> Sequence[Any]:
    """Which workers have not left, which buckets they own, and who joined last."""
    worker, bucket = schema.worker.c, schema.bucket.c
    there = select(worker.id).where(worker.left_at.is_(None)).order_by(worker.id)
    owners = select(bucket.bucket, bucket.owner).order_by(bucket.bucket)
    return _all(connection, there), _all(connection, owners), _last(connection, worker.id)


def sweeps(connection: Connection, _now: int) -> Sequence[Any]:
    """How far each round and its ranges have come."""
    sweep, part = schema.sweep.c, schema.range_.c
    rounds = select(sweep.name, sweep.round, sweep.status, sweep.ended_at, sweep.error)
    parts = (
        select(part.sweep, func.count(), func.sum(part.done), func.sum(part.failed))
        .join(schema.sweep, (sweep.name == part.sweep) & (sweep.round == part.round))
        .group_by(part.sweep)
        .order_by(part.sweep)
    )
    aside = schema.sweep_failure.c
    failed = select(aside.id).order_by(aside.id.desc()).limit(1)
    return (
        _all(connection, rounds.order_by(sweep.name)),
        _all(connection, parts),
        _all(connection, failed),
    )


def flows(connection: Connection, _now: int) -> Sequence[Any]:
    """The newest run, how much is left of those that run, and the newest template."""
    template = schema.flow_template.c
    return (
        _last(connection, schema.task.c.flow_id),
        flow_page.marks(connection, limit=MOST_GOING),
        _all(connection, select(func.count(), func.max(template.created_at))),
    )


def control(connection: Connection, _now: int) -> Sequence[Any]:
    """When runs started and ended last, and how far they are."""
    run = schema.control.c
    return _all(
        connection,
        select(
            func.count(),
            func.max(run.start_time),
            func.max(run.end_time),
            func.sum(run.tries),
            func.sum(run.progress_done),
            func.max(run.batch),
            func.max(run.step),
        ),
    )


def audit(connection: Connection, _now: int) -> Sequence[Any]:
    """The newest entry."""
    entry = schema.audit.c
    newest = entry.acted_at.desc(), entry.id.desc()
    return _all(connection, select(entry.id, entry.ok).order_by(*newest).limit(1))


def ledger(connection: Connection, _now: int) -> Sequence[Any]:
    """The newest entry, deduction and return."""
    made, given_back = schema.deduction.c.created_at, schema.stock_return.c.created_at
    return tuple(_last(connection, of) for of in (schema.stock_entry.c.id, made, given_back))


def _last(connection: Connection, column: ColumnElement[Any]) -> Any:
    return connection.scalar(select(func.max(column)))


def _all(connection: Connection, query: Select[*tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(query)]

"""Runs of sweeps over sources that were given at their start.

A run is a sweep of its own, with one round: its row, ranges and failed items are under its name,
`import_file@12`. So nothing of two runs can be mixed up, and all that holds for ranges holds here.
Its kind, with its switch, its limits and its handler, is that of the sweep.

A run is open while it runs or while failed items of it are retried; workers look at open runs only.
Locks are taken in this order: the row of the sweep, the row of the run in `windlass_sweep`, its row
here, its ranges and failed items.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, and_, case, delete, func, insert, or_, select, update

from windlass.core.task.sweep_run import run_name
from windlass.database.database import has_tables
from windlass.database.schema import (
    range_,
    round_,
    sweep,
    sweep_failure,
    sweep_run,
    visit,
)
from windlass.sweep.model import SweepRow, Tile
from windlass.sweep.store import sweep as sweeps
from windlass.sweep.store.sweep import RUNS
from windlass.value.status import Status

# How many runs of a sweep are kept that have ended, and how many older ones one start deletes.
KEEP_RUNS = 1_000
PRUNED_AT_ONCE = 20


class SweepRunRow(NamedTuple):
    """The row of a run; `source` is JSON, times are microseconds."""

    name: str
    sweep: str
    number: int
    source: str
    run_key: str | None
    is_open: bool
    started_at: int
    ended_at: int | None
    cancelled_at: int | None


COLUMNS = [sweep_run.c[name] for name in SweepRunRow._fields]


class NewSweepRun(NamedTuple):
    """A run that begins: its source as JSON and described, and how it is cut."""

    sweep: str
    source: str
    described: str
    key: str | None
    tiles: Sequence[Tile]
    numbers: Sequence[int]
    rows: int | None


def start(connection: Connection, new: NewSweepRun, *, now: int) -> tuple[SweepRunRow, bool]:
    """Begin a run, and whether it is new: with the key of an earlier one, that is the run."""
    sweeps.get(connection, new.sweep, lock=True)
    found = None if new.key is None else by_key(connection, new.sweep, new.key)
    if found is not None:
        return found, False
    last = select(func.max(sweep_run.c.number)).where(sweep_run.c.sweep == new.sweep)
    number = (connection.scalar(last) or 0) + 1
    name = run_name(new.sweep, number)
    ranges = len(new.tiles)
    connection.execute(
        insert(sweep).values(name=name, ranges=ranges, declared_ranges=ranges, source=new.described)
    )
    run = SweepRunRow(name, new.sweep, number, new.source, new.key, True, now, None, None)
    connection.execute(insert(sweep_run).values({**run._asdict(), "is_open": 1}))
    sweeps.open_round(
        connection, SweepRow(name), new.tiles, numbers=new.numbers, rows=new.rows, now=now
    )
    _prune(connection, new.sweep, number)
    return run, True


def get(connection: Connection, sweep_name: str, number: int) -> SweepRunRow | None:
    """A run by its number."""
    if not has_tables(connection, RUNS):
        return None
    query = select(*COLUMNS).where(sweep_run.c.sweep == sweep_name, sweep_run.c.number == number)
    return _one(connection.execute(query).first())


def by_key(connection: Connection, sweep_name: str, key: str) -> SweepRunRow | None:
    """A run by the key that its start gave it."""
    query = select(*COLUMNS).where(sweep_run.c.sweep == sweep_name, sweep_run.c.run_key == key)
    return _one(connection.execute(query).first())


def listing(connection: Connection, sweep_name: str, *, limit: int) -> list[SweepRunRow]:
    """The runs of a sweep, newest first."""
    if not has_tables(connection, RUNS):
        return []
    query = select(*COLUMNS).where(sweep_run.c.sweep == sweep_name)
    rows = connection.execute(query.order_by(sweep_run.c.number.desc()).limit(limit))
    return [_run(row) for row in rows]


def opened(connection: Connection, sweep_names: Collection[str]) -> list[SweepRunRow]:
    """All open runs of these sweeps, oldest first."""
    if not sweep_names or not has_tables(connection, RUNS):
        return []
    query = select(*COLUMNS).where(
        sweep_run.c.is_open == 1, sweep_run.c.sweep.in_(list(sweep_names))
    )
    rows = connection.execute(query.order_by(sweep_run.c.sweep, sweep_run.c.number))
    return [_run(row) for row in rows]


def to_serve(
    connection: Connection, sweep_names: Collection[str], *, most: int, also: Collection[str]
) -> list[SweepRunRow]:
    """The open runs that a worker serves: of each sweep the oldest `most`, as many that have
    ended and have failed items to retry, and those in `also`.

    Runs whose source cannot be read come after the others, so that they hold up none.
    """
    if not has_tables(connection, RUNS):
        return []
    busy = select(sweep_run.c.sweep).where(sweep_run.c.is_open == 1).distinct()
    found: dict[str, SweepRunRow] = {}
    for name in sorted(set(connection.scalars(busy)).intersection(sweep_names)):
        is_stuck = case((sweep.c.error.is_(None), 0), else_=1)
        query = (
            select(*COLUMNS)
            .join(sweep, sweep.c.name == sweep_run.c.name)
            .where(sweep_run.c.is_open == 1, sweep_run.c.sweep == name)
            .order_by(is_stuck, sweep_run.c.number)
            .limit(most)
        )
        running, over = sweep_run.c.ended_at.is_(None), sweep_run.c.ended_at.is_not(None)
        for part in (running, over):
            rows = connection.execute(query.where(part))
            found |= {row.name: _run(row) for row in rows}
    missing = [name for name in also if name not in found]
    if missing:
        query = select(*COLUMNS).where(
            sweep_run.c.name.in_(missing), sweep_run.c.sweep.in_(list(sweep_names))
        )
        found |= {row.name: _run(row) for row in connection.execute(query)}
    return list(found.values())


def reopen(connection: Connection, name: str) -> None:
    """Failed items of a run are to be retried: workers look at it again."""
    connection.execute(update(sweep_run).where(sweep_run.c.name == name).values(is_open=1))


def close_if_over(connection: Connection, name: str) -> bool:
    """Whether a run is over: it has ended, and no failed item of it waits to be retried."""
    row = connection.execute(
        select(*COLUMNS).where(sweep_run.c.name == name).with_for_update()
    ).first()
    if row is None:
        return True
    if row.ended_at is None:
        return False
    waits = select(sweep_failure.c.id).where(
        sweep_failure.c.sweep == name,
        or_(sweep_failure.c.retry_at.is_not(None), sweep_failure.c.batch.is_not(None)),
    )
    if connection.scalar(waits.limit(1)) is not None:
        return False
    connection.execute(update(sweep_run).where(sweep_run.c.name == name).values(is_open=0))
    return True


def cancel(connection: Connection, name: str, *, now: int) -> bool:
    """End a run; what it did stays done. False if it has ended.

    Its ranges are deleted, so a worker that has one finds that it has lost it.
    """
    row = sweeps.get(connection, name, lock=True)
    if row is None or not row.is_running:
        return False
    sweeps.note_round(connection, row, now=now)
    connection.execute(delete(range_).where(range_.c.sweep == name))
    connection.execute(
        update(sweep)
        .where(sweep.c.name == name)
        .values(status=Status.WAITING, ended_at=now, error=None)
    )
    connection.execute(
        update(sweep_run).where(sweep_run.c.name == name).values(ended_at=now, cancelled_at=now)
    )
    return True


class RunFailures(NamedTuple):
    """How many failed items a run has."""

    name: str
    items: int


def with_failures(connection: Connection) -> list[RunFailures]:
    """The runs that have ended with failed items."""
    if not has_tables(connection, RUNS):
        return []
    rows = connection.execute(
        select(sweep_run.c.name, func.count())
        .join(sweep_failure, sweep_failure.c.sweep == sweep_run.c.name)
        .where(sweep_run.c.ended_at.is_not(None), sweep_failure.c.tries > 0)
        .group_by(sweep_run.c.name)
    )
    return [RunFailures(name, int(items)) for name, items in rows]


def with_errors(connection: Connection) -> list[SweepRow]:
    """The open runs whose source cannot be read."""
    if not has_tables(connection, RUNS):
        return []
    query = select(sweep.c.name, sweep.c.error).join(
        sweep_run, and_(sweep_run.c.name == sweep.c.name, sweep_run.c.is_open == 1)
    )
    rows = connection.execute(query.where(sweep.c.error.is_not(None)))
    return [SweepRow(name, error=error) for name, error in rows]


def _prune(connection: Connection, sweep_name: str, newest: int) -> None:
    """Delete runs that ended long ago, with all that is theirs."""
    old = select(sweep_run.c.name).where(
        sweep_run.c.sweep == sweep_name,
        sweep_run.c.number <= newest - KEEP_RUNS,
        sweep_run.c.is_open == 0,
    )
    names = list(connection.scalars(old.order_by(sweep_run.c.number).limit(PRUNED_AT_ONCE)))
    if not names:
        return
    for table in (range_, round_, sweep_failure, visit):
        connection.execute(delete(table).where(table.c.sweep.in_(names)))
    connection.execute(delete(sweep).where(sweep.c.name.in_(names)))
    connection.execute(delete(sweep_run).where(sweep_run.c.name.in_(names)))


def _one(row: Row[Any] | None) -> SweepRunRow | None:
    return None if row is None else _run(row)


def _run(row: Row[Any]) -> SweepRunRow:
    return SweepRunRow._make(row)._replace(is_open=bool(row.is_open))

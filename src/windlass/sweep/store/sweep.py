"""The rows of sweeps, and the start and the end of rounds.

Locks are taken in this order: worker, sweep, range by id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    RowMapping,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from windlass.core.alert import store as alert
from windlass.core.alert.model import Trouble
from windlass.core.face import Site
from windlass.core.task.sweep_run import RUN_SIGN
from windlass.database.database import has_tables
from windlass.database.dialect.base import Dialect
from windlass.database.schema import (
    range_,
    round_,
    sweep,
    sweep_done,
    sweep_failure,
    sweep_fresh,
    sweep_run,
    visit_request,
)
from windlass.sweep.model import (
    AT_ONCE,
    RoundView,
    SweepRow,
    Tile,
    has_same_keys,
    hash_of,
    next_round_at,
)
from windlass.value.status import Status

KEEP_ROUNDS = 1_000
# The migration that has the tables of visits.
VISITS = "0010"
# The migration that has the table of runs over sources that were given at their start.
RUNS = "0015"
# How long a round's work is remembered at most, and how long after a visit last asked for it.
LONGEST_FRESH = 60 * 60 * 1_000_000
ASKED_FOR = 7 * 86_400 * 1_000_000

COLUMNS = [sweep.c["rows_estimate" if name == "rows" else name] for name in SweepRow._fields]


def declare(
    connection: Connection,
    dialect: Dialect,
    name: str,
    *,
    ranges: int,
    redo: int | None,
    source: str,
    now: int,
    auto: bool = True,
) -> bool:
    """Write a declaration into the row of its sweep; whether the sweep is new, or declared again.

    A new sweep is due at once; without `auto` no round is ever due. A new number of ranges counts
    from the next round on. A source with other keys is left to `take_over`.
    """
    query = select(sweep).where(sweep.c.name == name).with_for_update()
    row = connection.execute(query).mappings().first()
    if row is None:
        dialect.ensure(
            connection,
            sweep,
            name=name,
            ranges=ranges,
            declared_ranges=ranges,
            redo=redo,
            due_at=now if auto else None,
            source=source,
        )
        return True
    changes: dict[str, Any] = {}
    if row["declared_ranges"] != ranges:
        changes |= {"declared_ranges": ranges, "ranges": ranges}
    if row["redo"] != redo:
        changes["redo"] = redo
        if row["status"] == Status.WAITING and row["ended_at"] is not None:
            changes["due_at"] = next_round_at(ended_at=row["ended_at"], redo=redo)
    if row["status"] == Status.WAITING:
        changes |= _first_round(row, auto=auto, now=now)
    if row["source"] != source and has_same_keys(row["source"], source):
        changes["source"] = source
    is_back = row["stopped_at"] is not None
    if is_back:
        changes["stopped_at"] = None
    if changes:
        connection.execute(update(sweep).where(sweep.c.name == name).values(changes))
    return is_back


def _first_round(row: RowMapping, *, auto: bool, now: int) -> dict[str, Any]:
    """When the next round is due, if that changes because `auto` was changed."""
    if not auto:
        return {} if row["due_at"] is None else {"due_at": None}
    waits_for_start = row["due_at"] is None and row["round"] == 0
    return {"due_at": now} if waits_for_start else {}


def stop(connection: Connection, name: str, *, now: int) -> bool:
    """Stop a sweep that is no longer declared; its ranges stay as they are."""
    stopped = connection.execute(
        update(sweep)
        .where(sweep.c.name == name, sweep.c.stopped_at.is_(None))
        .values(stopped_at=now, starter=None)
    )
    return bool(stopped.rowcount)


def get(connection: Connection, name: str, *, lock: bool = False) -> SweepRow | None:
    """The row of a sweep; `lock` keeps others from changing it in this transaction."""
    query = select(*COLUMNS).where(sweep.c.name == name)
    row = connection.execute(query.with_for_update() if lock else query).first()
    return None if row is None else _sweep(row)


def listing(connection: Connection) -> list[SweepRow]:
    """All sweeps, by name, without their runs."""
    query = select(*COLUMNS).where(*_is_no_run(connection)).order_by(sweep.c.name)
    return [_sweep(row) for row in connection.execute(query)]


def named(connection: Connection, names: Sequence[str]) -> dict[str, SweepRow]:
    """The rows of these sweeps and runs, by name."""
    rows = connection.execute(select(*COLUMNS).where(sweep.c.name.in_(names)))
    return {row.name: _sweep(row) for row in rows}


def as_run(row: SweepRow) -> SweepRow:
    """The row of a run: its sweep decides whether it is declared.

    Code that does not know runs takes their rows for sweeps that are no longer declared.
    """
    return row._replace(stopped_at=None)


def names(connection: Connection) -> list[str]:
    """The names of all sweeps, without their runs."""
    query = select(sweep.c.name).where(*_is_no_run(connection))
    return list(connection.scalars(query.order_by(sweep.c.name)))


def _is_no_run(connection: Connection) -> list[ColumnElement[bool]]:
    """The condition that a row is a sweep."""
    if not has_tables(connection, RUNS):
        return []
    return [sweep.c.name.not_in(select(sweep_run.c.name))]


def has_open_runs(connection: Connection) -> bool:
    """Whether runs over given sources wait for workers."""
    if not has_tables(connection, RUNS):
        return False
    open_ = select(sweep_run.c.name).where(sweep_run.c.is_open == 1)
    return connection.scalar(open_.limit(1)) is not None


def due_retries(connection: Connection, names: Sequence[str], *, now: int) -> set[str]:
    """Those of these sweeps and runs with failed items that wait to be retried now."""
    failed = sweep_failure.c
    waits = select(failed.id).where(
        failed.sweep == sweep.c.name, failed.retry_at <= now, failed.batch.is_(None)
    )
    query = select(sweep.c.name).where(sweep.c.name.in_(names), waits.exists())
    return set(connection.scalars(query))


def asked_visits(connection: Connection, *, now: int) -> set[str]:
    """The names of sweeps with visits that wait for a worker."""
    if not has_tables(connection, VISITS):
        return set()
    waits = select(visit_request.c.key_hash).where(
        visit_request.c.sweep == sweep.c.name, is_due(now)
    )
    query = select(sweep.c.name).where(waits.exists(), *_is_no_run(connection))
    return set(connection.scalars(query))


def is_free(now: int) -> ColumnElement[bool]:
    """Whether nobody runs a visit: it waits, or its caller has not renewed it."""
    lapsed = and_(visit_request.c.worker.is_(None), visit_request.c.held_until < now)
    return or_(visit_request.c.batch.is_(None), lapsed)


def is_due(now: int) -> ColumnElement[bool]:
    """Whether a worker may run a visit now: one that was put off has the moment of its next try."""
    return and_(visit_request.c.asked_at <= now, is_free(now))


def wanted_fresh(connection: Connection, *, now: int) -> dict[str, int]:
    """The sweeps whose visits ask how fresh keys are, and for how long that matters."""
    if not has_tables(connection, VISITS):
        return {}
    query = select(sweep_fresh.c.sweep, sweep_fresh.c.fresh)
    rows = connection.execute(query.where(sweep_fresh.c.asked_at >= now - ASKED_FOR))
    return {name: min(int(fresh), LONGEST_FRESH) for name, fresh in rows}


def note_done(
    connection: Connection, dialect: Dialect, sweep: str, keys: Sequence[str], *, at: int
) -> None:
    """A round did these keys, none of them before `at`."""
    if not has_tables(connection, VISITS):
        return
    hashes = sorted({hash_of(key) for key in keys})
    for begin in range(0, len(hashes), AT_ONCE):
        some = hashes[begin : begin + AT_ONCE]
        rows = [{"sweep": sweep, "key_hash": each, "done_at": at} for each in some]
        dialect.ensure_all(connection, sweep_done, rows)
        connection.execute(
            update(sweep_done)
            .where(sweep_done.c.sweep == sweep, sweep_done.c.key_hash.in_(some))
            .where(sweep_done.c.done_at < at)
            .values(done_at=at)
        )


def raise_alert(connection: Connection, site: Site, problem: Trouble) -> None:
    """Alert people about a sweep."""
    number, now = site.numbers.take(inside=connection)[0], site.clock.now()
    alert.raise_alert(connection, number, problem, now=now)


def note(connection: Connection, site: Site, problem: Trouble) -> None:
    """Tell people something about a sweep that needs no cure."""
    number, now = site.numbers.take(inside=connection)[0], site.clock.now()
    alert.note(connection, number, problem, now=now)


def note_error(connection: Connection, name: str, error: str | None) -> bool:
    """Write why a sweep cannot continue, or None if it can; whether that is new."""
    changed = connection.execute(
        update(sweep)
        .where(sweep.c.name == name, sweep.c.error.is_distinct_from(error))
        .values(error=error)
    )
    return bool(changed.rowcount)


def want_ranges(connection: Connection, name: str, count: int) -> None:
    """Cut future rounds into `count` ranges."""
    connection.execute(update(sweep).where(sweep.c.name == name).values(ranges=count))


def take_start(connection: Connection, name: str, *, worker: int, now: int) -> SweepRow | None:
    """Let `worker` alone start the round that is due; None if it is not due or taken."""
    connection.execute(
        update(sweep)
        .where(sweep.c.name == name, sweep.c.status == Status.WAITING, sweep.c.due_at <= now)
        .where(sweep.c.starter.is_(None), sweep.c.stopped_at.is_(None))
        .values(starter=worker)
    )
    found = get(connection, name)
    return found if found is not None and found.starter == worker else None


def give_up_start(connection: Connection, *, worker: int, name: str | None = None) -> None:
    """Let another worker start the round of this sweep, or of all that `worker` was to start."""
    query = update(sweep).where(sweep.c.starter == worker).values(starter=None)
    connection.execute(query if name is None else query.where(sweep.c.name == name))


def open_round(
    connection: Connection,
    before: SweepRow,
    tiles: Sequence[Tile],
    *,
    numbers: Sequence[int],
    rows: int | None,
    now: int,
    source: str | None = None,
) -> int:
    """Begin the round after `before`, unless it was begun; the number of the round that runs."""
    found = get(connection, before.name, lock=True)
    assert found is not None
    if found.is_running or found.round != before.round:
        return found.round
    connection.execute(delete(range_).where(range_.c.sweep == before.name))
    number = before.round + 1
    connection.execute(
        insert(range_),
        [
            new_range(tile, id_=id_, sweep=before.name, number=number)
            for id_, tile in zip(numbers, tiles, strict=True)
        ],
    )
    connection.execute(
        update(sweep)
        .where(sweep.c.name == before.name)
        .values(
            status=Status.RUNNING,
            round=number,
            rows_estimate=rows,
            started_at=now,
            ended_at=None,
            due_at=None,
            starter=None,
            error=None,
            source=found.source if source is None else source,
        )
    )
    return number


def new_range(tile: Tile, *, id_: int, sweep: str, number: int) -> dict[str, Any]:
    """The columns of a range of round `number` that no worker has begun."""
    return {
        "id": id_,
        "sweep": sweep,
        "round": number,
        "range_begin": tile.begin,
        "range_end": tile.end,
        "breakpoint": tile.begin,
        "read_to": tile.begin,
        "rows_estimate": tile.rows,
    }


def rounds(connection: Connection, name: str, *, limit: int = 20) -> list[RoundView]:
    """The rounds that ended, newest first."""
    columns = [column for column in round_.c if column is not round_.c.sweep]
    query = select(*columns).where(round_.c.sweep == name).order_by(round_.c.round.desc())
    rows = connection.execute(query.limit(limit)).mappings()
    return [RoundView.of(**row) for row in rows]


def take_over(
    connection: Connection, name: str, *, source: str, auto: bool, now: int
) -> RoundView | None:
    """Let a sweep read a source with other keys; the round that was given up, if one ran.

    The ranges of that round are deleted, so a worker that has one finds that it has lost it.
    """
    row = get(connection, name, lock=True)
    if row is None or has_same_keys(row.source, source):
        return None
    connection.execute(update(sweep).where(sweep.c.name == name).values(source=source))
    if not row.is_running:
        return None
    over = note_round(connection, row, now=now)
    connection.execute(delete(range_).where(range_.c.sweep == name))
    connection.execute(
        update(sweep)
        .where(sweep.c.name == name)
        .values(
            status=Status.WAITING,
            ended_at=now,
            due_at=now if auto else None,
            rows_estimate=None,
            error=None,
        )
    )
    return over


def note_round(connection: Connection, row: SweepRow, *, now: int) -> RoundView:
    """Keep the round that runs as history."""
    counts = [func.sum(range_.c[name]).label(name) for name in ("done", "failed", "repeated")]
    query = select(*counts, func.count().label("ranges")).where(
        range_.c.sweep == row.name, range_.c.round == row.round
    )
    found = connection.execute(query).mappings().one()
    values = {name: int(count) for name, count in found.items()}
    values |= {"round": row.round, "started_at": row.started_at or now, "ended_at": now}
    connection.execute(insert(round_).values(sweep=row.name, **values))
    return RoundView.of(**values)


def end_round(connection: Connection, row: SweepRow, *, now: int) -> RoundView:
    """End a round whose ranges are all done."""
    over = note_round(connection, row, now=now)
    connection.execute(
        update(sweep)
        .where(sweep.c.name == row.name)
        .values(
            status=Status.WAITING,
            ended_at=now,
            due_at=next_round_at(ended_at=now, redo=row.redo),
            rows_estimate=over.done + over.failed,
        )
    )
    if RUN_SIGN in row.name and has_tables(connection, RUNS):
        waits = select(sweep_failure.c.id).where(
            sweep_failure.c.sweep == row.name, sweep_failure.c.retry_at.is_not(None)
        )
        is_open = int(connection.scalar(waits.limit(1)) is not None)
        connection.execute(
            update(sweep_run)
            .where(sweep_run.c.name == row.name)
            .values(ended_at=now, is_open=is_open)
        )
    # This round passed all keys: an item that failed before and not now has succeeded or is gone.
    connection.execute(
        delete(sweep_failure).where(
            sweep_failure.c.sweep == row.name,
            sweep_failure.c.round < row.round,
            sweep_failure.c.batch.is_(None),
        )
    )
    old = and_(round_.c.sweep == row.name, round_.c.round <= row.round - KEEP_ROUNDS)
    connection.execute(delete(round_).where(old))
    return over


def _sweep(row: Row[Any]) -> SweepRow:
    return SweepRow._make(row)._replace(status=Status(row.status))

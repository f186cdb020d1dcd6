"""Sweeps in the database: what is declared, and the rounds that begin and end.

Every function is called inside a transaction. Locks are taken in this order: worker, sweep, range
by id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    delete,
    func,
    insert,
    select,
    update,
)

from windlass.database.dialect.base import Dialect
from windlass.database.schema import range_, round_, sweep, sweep_failure
from windlass.sweep.model import Round, Tile, has_same_keys, next_round_at
from windlass.value.status import Status

KEEP_ROUNDS = 1_000


class SweepRow(NamedTuple):
    """A sweep as its row has it. It is running while a round is; times are microseconds."""

    name: str
    status: Status
    round: int
    ranges: int
    redo: int | None
    rows: int | None
    started_at: int | None
    ended_at: int | None
    due_at: int | None
    starter: int | None
    stopped_at: int | None
    source: str | None
    error: str | None

    @property
    def is_running(self) -> bool:
        return self.status is Status.RUNNING


# Rows of sweeps


def declare(
    connection: Connection,
    dialect: Dialect,
    name: str,
    *,
    ranges: int,
    redo: int | None,
    source: str,
    now: int,
) -> bool:
    """Have the row of a sweep say what is declared; whether it is new, or back.

    A new sweep is due at once. Another number of ranges than before counts from the next round on.
    A source with other keys is not taken over here.
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
            due_at=now,
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
    if row["source"] != source and has_same_keys(row["source"], source):
        changes["source"] = source
    is_back = row["stopped_at"] is not None
    if is_back:
        changes["stopped_at"] = None
    if changes:
        connection.execute(update(sweep).where(sweep.c.name == name).values(changes))
    return is_back


def stop(connection: Connection, name: str, *, now: int) -> bool:
    """Note that nobody declares a sweep any more; its ranges stay as they are."""
    stopped = connection.execute(
        update(sweep)
        .where(sweep.c.name == name, sweep.c.stopped_at.is_(None))
        .values(stopped_at=now, starter=None)
    )
    return bool(stopped.rowcount)


def get(connection: Connection, name: str, *, lock: bool = False) -> SweepRow | None:
    """The row of a sweep, with `lock` for the caller alone."""
    query = select(sweep).where(sweep.c.name == name)
    row = connection.execute(query.with_for_update() if lock else query).mappings().first()
    return None if row is None else _sweep(row)


def listing(connection: Connection) -> list[SweepRow]:
    """All sweeps, by name."""
    rows = connection.execute(select(sweep).order_by(sweep.c.name)).mappings()
    return [_sweep(row) for row in rows]


def note_error(connection: Connection, name: str, error: str | None) -> bool:
    """Say what keeps a sweep from going on, or that nothing does; whether that is new."""
    changed = connection.execute(
        update(sweep).where(sweep.c.name == name, ~is_(sweep.c.error, error)).values(error=error)
    )
    return bool(changed.rowcount)


def want_ranges(connection: Connection, name: str, count: int) -> None:
    """Cut the rounds to come into so many ranges."""
    connection.execute(update(sweep).where(sweep.c.name == name).values(ranges=count))


# Rounds


def take_start(connection: Connection, name: str, *, worker: int, now: int) -> SweepRow | None:
    """Be the one who cuts the source into the ranges of a round that is due."""
    connection.execute(
        update(sweep)
        .where(sweep.c.name == name, sweep.c.status == Status.WAITING, sweep.c.due_at <= now)
        .where(sweep.c.starter.is_(None), sweep.c.stopped_at.is_(None))
        .values(starter=worker)
    )
    found = get(connection, name)
    return found if found is not None and found.starter == worker else None


def give_up_start(connection: Connection, name: str, *, worker: int) -> None:
    """Let somebody else, or a later try, begin the round."""
    connection.execute(
        update(sweep).where(sweep.c.name == name, sweep.c.starter == worker).values(starter=None)
    )


def give_up_starts(connection: Connection, *, worker: int) -> None:
    """Let others begin all rounds that a worker was about to."""
    connection.execute(update(sweep).where(sweep.c.starter == worker).values(starter=None))


def open_round(
    connection: Connection,
    before: SweepRow,
    tiles: Sequence[Tile],
    numbers: Sequence[int],
    *,
    rows: int | None,
    now: int,
    source: str | None = None,
) -> int:
    """Begin the round after `before`, unless somebody has; the number of the round that runs."""
    found = get(connection, before.name, lock=True)
    assert found is not None
    if found.is_running or found.round != before.round:
        return found.round
    connection.execute(delete(range_).where(range_.c.sweep == before.name))
    number = before.round + 1
    connection.execute(
        insert(range_),
        [
            {
                "id": id_,
                "sweep": before.name,
                "round": number,
                "range_begin": tile.begin,
                "range_end": tile.end,
                "breakpoint": tile.begin,
                "read_to": tile.begin,
                "rows_estimate": tile.rows,
            }
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


def rounds(connection: Connection, name: str, *, limit: int = 20) -> list[Round]:
    """The rounds that ended, newest first."""
    rows = connection.execute(
        select(
            round_.c.round,
            round_.c.started_at,
            round_.c.ended_at,
            round_.c.done,
            round_.c.failed,
            round_.c.repeated,
            round_.c.ranges,
        )
        .where(round_.c.sweep == name)
        .order_by(round_.c.round.desc())
        .limit(limit)
    )
    return [Round(*row) for row in rows]


def take_over(connection: Connection, name: str, *, source: str, now: int) -> Round | None:
    """Walk a source with other keys from now on; the round that was given up for it, if one ran.

    Its ranges are gone with it, so whoever holds one finds that it is not theirs any more.
    """
    row = get(connection, name, lock=True)
    if row is None or has_same_keys(row.source, source):
        return None
    connection.execute(update(sweep).where(sweep.c.name == name).values(source=source))
    if not row.is_running:
        return None
    over = _note_round(connection, row, now=now)
    connection.execute(delete(range_).where(range_.c.sweep == name))
    connection.execute(
        update(sweep)
        .where(sweep.c.name == name)
        .values(status=Status.WAITING, ended_at=now, due_at=now, rows_estimate=None, error=None)
    )
    return over


def _note_round(connection: Connection, row: SweepRow, *, now: int) -> Round:
    """Have the history of a sweep say what was done in a round that is over."""
    done, failed, repeated, count = connection.execute(
        select(
            func.sum(range_.c.done),
            func.sum(range_.c.failed),
            func.sum(range_.c.repeated),
            func.count(),
        ).where(range_.c.sweep == row.name, range_.c.round == row.round)
    ).one()
    over = Round(
        row.round, row.started_at or now, now, int(done), int(failed), int(repeated), int(count)
    )
    connection.execute(insert(round_).values(sweep=row.name, **over._asdict()))
    return over


def end_round(connection: Connection, row: SweepRow, *, now: int) -> Round:
    """End a round whose ranges are all done."""
    over = _note_round(connection, row, now=now)
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
    # All keys were passed in this round: what failed before, and not again, is well or gone.
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


def is_(column: ColumnElement[Any], value: str | None) -> ColumnElement[bool]:
    """Whether a column has that value, where null is one."""
    if value is None:
        return column.is_(None)
    return and_(column.is_not(None), column == value)


def _sweep(row: RowMapping) -> SweepRow:
    return SweepRow(
        name=row["name"],
        status=Status(row["status"]),
        round=row["round"],
        ranges=row["ranges"],
        redo=row["redo"],
        rows=row["rows_estimate"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        due_at=row["due_at"],
        starter=row["starter"],
        stopped_at=row["stopped_at"],
        source=row["source"],
        error=row["error"],
    )

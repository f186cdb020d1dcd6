"""Ranges of sweeps: claimed, reserved, saved, split, merged and completed.

Claim and split compete on one row. Each statement checks again what it relies on, and whoever
changes no row reads again. Keys are compared for equality only: a `where` that names the end and
the place that were seen holds only while both are as they were.

Every function is called inside a transaction, and those that act for a worker come after its row
was found alive. Locks are taken in this order: worker, sweep, range by id.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    case,
    delete,
    insert,
    or_,
    select,
    update,
)

from windlass.core.alert.store import write_alert
from windlass.database.dialect.base import Dialect
from windlass.database.schema import range_
from windlass.sweep.model import Order, Range, Round, lose
from windlass.sweep.store import failed_item as aside
from windlass.sweep.store import sweep as rounds
from windlass.sweep.store.failed_item import NewFailure
from windlass.sweep.store.sweep import is_
from windlass.value.status import Status

OPEN = (Status.WAITING, Status.RUNNING)


def listing(connection: Connection, name: str) -> list[Range]:
    """The ranges of the round that runs, or of the last one; in the order of their ids."""
    rows = connection.execute(
        select(range_).where(range_.c.sweep == name).order_by(range_.c.id)
    ).mappings()
    return [_range(row) for row in rows]


class Claim(NamedTuple):
    """A range as it was taken; `poison` is the key of an item that was set aside on the way."""

    range: Range
    poison: str | None = None


@dataclass(frozen=True)
class Wish:
    """What a claim looks for. A range to be careful with is only for one who has nothing else.

    One who has enough still takes what fell with its worker, and only that.
    """

    sweep: str
    order: Order
    max_lost: int
    is_alone: bool
    only_fallen: bool = False


def claim(
    connection: Connection,
    dialect: Dialect,
    wish: Wish,
    *,
    batch: int,
    worker: int,
    now: int,
    numbers: Sequence[int],
) -> Claim | None:
    """Take a range that waits, or that fell with its worker; done again, it finds its own work.

    What was in flight alone when its worker died once too often is set aside on the way. `numbers`
    are for the failure and the alert that this makes.
    """
    if not dialect.alive(connection, worker):
        return None
    own = select(range_).where(range_.c.worker == worker, range_.c.batch == batch)
    mine = connection.execute(own).mappings().first()
    if mine is not None:
        return Claim(_range(mine))
    states = (Status.RUNNING,) if wish.only_fallen else OPEN
    free = [range_.c.sweep == wish.sweep, range_.c.status.in_(states), range_.c.batch.is_(None)]
    rows = connection.execute(
        select(range_.c.id, range_.c.careful).where(*free).order_by(range_.c.id)
    ).all()
    suspects = [row.id for row in rows if row.careful and wish.is_alone]
    others = [row.id for row in rows if not row.careful]
    for number in [*suspects, *_ordered(others, wish.order)]:
        row = (
            connection.execute(
                select(range_).where(range_.c.id == number, *free).with_for_update(skip_locked=True)
            )
            .mappings()
            .first()
        )
        if row is None:
            continue
        taken = _take(
            connection, _range(row), wish, batch=batch, worker=worker, now=now, numbers=numbers
        )
        if taken is not None:
            return taken
    return None


def _ordered(ids: list[int], order: Order) -> list[int]:
    match order:
        case Order.DESC:
            return ids[::-1]
        case Order.RANDOM:
            return random.sample(ids, len(ids))
    return ids


def _take(
    connection: Connection,
    found: Range,
    wish: Wish,
    *,
    batch: int,
    worker: int,
    now: int,
    numbers: Sequence[int],
) -> Claim | None:
    values: dict[str, Any] = {}
    poison = None
    if found.status is Status.RUNNING:
        loss = lose(found, max_lost=wish.max_lost)
        values = {
            "lost": loss.lost,
            "lost_at": loss.lost_at,
            "again_to": loss.again_to,
            "careful": int(loss.is_careful),
        }
        if loss.is_poison:
            poison = found.read_to
            assert poison is not None
            _set_poison_aside(connection, found, poison, loss.lost, now=now, numbers=numbers)
            values |= {"breakpoint": poison, "failed": found.failed + 1, "lost": 0}
    values["read_to"] = values.get("breakpoint", found.breakpoint)
    if values.get("careful") and not wish.is_alone:
        # Whoever has nothing else takes it: an item beside it must not be blamed.
        values |= {"status": Status.WAITING, "worker": None}
        connection.execute(update(range_).where(range_.c.id == found.id).values(values))
        return None
    connection.execute(
        update(range_)
        .where(range_.c.id == found.id)
        .values(status=Status.RUNNING, batch=batch, worker=worker, saved_at=now, **values)
    )
    row = connection.execute(select(range_).where(range_.c.id == found.id)).mappings().one()
    return Claim(_range(row), poison)


def _set_poison_aside(
    connection: Connection,
    found: Range,
    poison: str,
    lost: int,
    *,
    now: int,
    numbers: Sequence[int],
) -> None:
    error = "poison: its worker died while it ran alone, as others had died near it before"
    row = NewFailure(numbers[0], poison, error, found.round, lost)
    aside.set_aside(connection, found.sweep, [row], now=now)
    write_alert(
        connection,
        numbers[1],
        what="poison",
        kind=found.sweep,
        text=f"sweep {found.sweep!r} went past key {poison}, which was set aside as {error}",
        now=now,
    )


@dataclass
class Save:
    """How a range is now. All of it is as its owner has it, so saving it twice changes nothing."""

    id: int
    batch: int
    breakpoint: str | None
    done: int = 0
    failed: int = 0
    repeated: int = 0
    per_second: float = 0.0
    again_to: str | None = None
    is_careful: bool = False
    failures: list[NewFailure] = field(default_factory=list)


def save(connection: Connection, what: Save, *, sweep: str, now: int) -> bool:
    """Move the breakpoint, and set aside what failed before it; False if the range is not ours."""
    saved = connection.execute(
        update(range_)
        .where(range_.c.id == what.id, range_.c.batch == what.batch)
        .values(
            breakpoint=what.breakpoint,
            done=what.done,
            failed=what.failed,
            repeated=what.repeated,
            per_second=what.per_second,
            again_to=what.again_to,
            careful=int(what.is_careful),
            saved_at=now,
        )
    )
    if not saved.rowcount:
        return False
    if what.failures:
        aside.set_aside(connection, sweep, what.failures, now=now)
    return True


def reserve(
    connection: Connection,
    number: int,
    *,
    batch: int,
    end: str | None,
    again_to: str | None,
    read_to: str,
) -> bool:
    """Reserve up to `read_to`, which is past neither `end` nor `again_to`.

    False if one of the two is elsewhere by now, or if the range is not ours any more: read it
    again. In a range to be careful with, one item flies at a time: whatever was reserved before
    must be done, and saved.
    """
    nothing_flies = _is_same(range_.c.read_to, range_.c.breakpoint)
    reserved = connection.execute(
        update(range_)
        .where(range_.c.id == number, range_.c.batch == batch, is_(range_.c.range_end, end))
        .where(is_(range_.c.again_to, again_to), or_(range_.c.careful == 0, nothing_flies))
        .values(read_to=read_to)
    )
    return bool(reserved.rowcount)


def look(connection: Connection, number: int) -> Range | None:
    """A range as it is now."""
    row = connection.execute(select(range_).where(range_.c.id == number)).mappings().first()
    return None if row is None else _range(row)


def release(
    connection: Connection, what: Save, *, sweep: str, again_to: str | None, now: int
) -> bool:
    """Save a range and let it wait for whoever takes it; False if it is not ours."""
    if not save(connection, what, sweep=sweep, now=now):
        return False
    connection.execute(
        update(range_)
        .where(range_.c.id == what.id)
        .values(
            status=Status.WAITING,
            batch=None,
            worker=None,
            read_to=range_.c.breakpoint,
            again_to=again_to,
            per_second=0.0,
        )
    )
    return True


def split(connection: Connection, seen: Range, *, middle: str, number: int) -> bool:
    """Cut an open range in two at `middle`, which lies after the floor of what was seen.

    False if it has gone on, ended or been cut since it was seen, or if a part would be empty. The
    second part is nobody's.
    """
    if middle in (seen.begin, seen.end):
        return False
    half = max(1, seen.left // 2) if seen.is_counted else 0
    rest = max(1, seen.rows - half) if seen.is_counted else 0
    cut = connection.execute(
        update(range_)
        .where(range_.c.id == seen.id, range_.c.status.in_(OPEN))
        .where(is_(range_.c.range_end, seen.end), is_(range_.c.read_to, seen.read_to))
        .where(is_(range_.c.again_to, seen.again_to))
        .values(range_end=middle, rows_estimate=rest)
    )
    if not cut.rowcount:
        return False
    connection.execute(
        insert(range_).values(
            id=number,
            sweep=seen.sweep,
            round=seen.round,
            range_begin=middle,
            range_end=seen.end,
            breakpoint=middle,
            read_to=middle,
            rows_estimate=half,
        )
    )
    return True


def merge(connection: Connection, one: Range, other: Range) -> bool:
    """Make one range of two neighbours of which nothing was ever reserved; whether that is so."""
    rows = connection.execute(
        select(range_)
        .where(range_.c.id.in_([one.id, other.id]))
        .order_by(range_.c.id)
        .with_for_update()
    ).mappings()
    found = {row["id"]: _range(row) for row in rows}
    if len(found) != 2:
        return False
    first, second = found[one.id], found[other.id]
    if not (first.is_untouched and second.is_untouched) or first.end is None:
        return False
    if first.end != second.begin or first.round != second.round:
        return False
    connection.execute(
        update(range_)
        .where(range_.c.id == first.id)
        .values(range_end=second.end, rows_estimate=first.rows + second.rows)
    )
    connection.execute(delete(range_).where(range_.c.id == second.id))
    return True


class Completed(NamedTuple):
    """Whether the range is done by that, and the round that ended with it, if one did."""

    is_done: bool
    over: Round | None = None


def complete(
    connection: Connection, what: Save, *, sweep: str, end: str | None, now: int
) -> Completed:
    """End a range whose breakpoint is all that it reserved, and all there is up to its `end`.

    The row of the sweep is locked first, so of two that end at once one sees that it is the last.
    """
    row = rounds.get(connection, sweep, lock=True)
    if row is None or not save(connection, what, sweep=sweep, now=now):
        return Completed(False)
    ended = connection.execute(
        update(range_)
        .where(range_.c.id == what.id, range_.c.batch == what.batch)
        .where(is_(range_.c.range_end, end), is_(range_.c.read_to, what.breakpoint))
        .where(or_(range_.c.range_end.is_(None), range_.c.range_end == range_.c.breakpoint))
        .values(status=Status.SUCCEEDED, batch=None, per_second=0.0, again_to=None, careful=0)
    )
    if not ended.rowcount:
        return Completed(False)
    rest = select(range_.c.id).where(
        range_.c.sweep == sweep, range_.c.round == row.round, range_.c.status.in_(OPEN)
    )
    if connection.scalar(rest.limit(1)) is not None:
        return Completed(True)
    return Completed(True, rounds.end_round(connection, row, now=now))


def fall(connection: Connection, worker: int) -> int:
    """A worker died: its ranges are nobody's, and nothing it still writes matches; how many."""
    rounds.give_up_starts(connection, worker=worker)
    abandoned = connection.execute(
        update(range_)
        .where(range_.c.worker == worker, range_.c.status == Status.RUNNING)
        .values(batch=None)
    )
    aside.fall(connection, worker)
    return abandoned.rowcount


def hand_back(connection: Connection, worker: int, *, unless: Collection[int] = ()) -> int:
    """The ranges of a worker wait again, but those whose batch it knows; how many.

    So do the items that it had taken to try them again. Nothing is known of what ran beyond the
    breakpoints: that is run again.
    """
    if not unless:
        rounds.give_up_starts(connection, worker=worker)
    handed_back = connection.execute(
        update(range_)
        .where(range_.c.worker == worker, range_.c.status == Status.RUNNING)
        .where(range_.c.batch.is_not(None), range_.c.batch.not_in(list(unless)))
        .values(
            status=Status.WAITING,
            batch=None,
            worker=None,
            again_to=case(
                (range_.c.again_to.is_not(None), range_.c.again_to),
                (_is_same(range_.c.read_to, range_.c.breakpoint), None),
                else_=range_.c.read_to,
            ),
            per_second=0.0,
        )
    )
    aside.let_go(connection, worker, unless=unless)
    return handed_back.rowcount


class Free(NamedTuple):
    """The sweeps with ranges that fell with their worker, and those that wait to run alone."""

    abandoned: set[str]
    careful: set[str]


def free(connection: Connection) -> Free:
    """Which sweeps have ranges that somebody must take, also one who has enough."""
    # Written as the index has it, so that of ranges that just wait, however many, none is read.
    abandoned = and_(range_.c.status == Status.RUNNING, range_.c.careful.in_((0, 1)))
    careful = and_(range_.c.status == Status.WAITING, range_.c.careful == 1)
    rows = connection.execute(
        select(range_.c.sweep, range_.c.careful)
        .where(or_(*(and_(each, range_.c.batch.is_(None)) for each in (abandoned, careful))))
        .distinct()
    ).all()
    return Free(
        {row.sweep for row in rows if not row.careful}, {row.sweep for row in rows if row.careful}
    )


def held(connection: Connection, worker: int) -> set[int]:
    """The batches under which a worker holds ranges, or items to be tried again."""
    found = connection.scalars(
        select(range_.c.batch).where(
            range_.c.worker == worker,
            range_.c.status == Status.RUNNING,
            range_.c.batch.is_not(None),
        )
    )
    return {*found, *aside.held(connection, worker)}


def _is_same(one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[bool]:
    return or_(one == other, and_(one.is_(None), other.is_(None)))


def _range(row: RowMapping) -> Range:
    return Range(
        id=row["id"],
        sweep=row["sweep"],
        round=row["round"],
        begin=row["range_begin"],
        end=row["range_end"],
        breakpoint=row["breakpoint"],
        read_to=row["read_to"],
        status=Status(row["status"]),
        batch=row["batch"],
        worker=row["worker"],
        done=row["done"],
        failed=row["failed"],
        repeated=row["repeated"],
        rows=row["rows_estimate"],
        per_second=row["per_second"],
        lost=row["lost"],
        lost_at=row["lost_at"],
        again_to=row["again_to"],
        is_careful=bool(row["careful"]),
        saved_at=row["saved_at"],
    )

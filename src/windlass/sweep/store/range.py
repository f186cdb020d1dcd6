"""The rows of ranges: claimed, reserved, saved, split, merged and completed.

Claim and split compete for one row. Each statement checks again what it relies on; a caller that
changed no row reads the range again. Keys are compared for equality only: a `where` that names the
end and the position that were seen matches only while both are unchanged.

A caller that acts for a worker has checked in the same transaction that the worker is alive. Locks
are taken in this order: worker, sweep, range by id.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, and_, case, delete, insert, or_, select, update

from windlass.core.alert.model import Trouble
from windlass.core.alert.store import raise_alert
from windlass.database.database import has_tables
from windlass.database.schema import range_, sweep_failure, visit_request
from windlass.sweep.model import Range, RangeOrder, RoundView, Tile, lose
from windlass.sweep.store import failed_item
from windlass.sweep.store import request as requests
from windlass.sweep.store import sweep as sweeps
from windlass.sweep.store.failed_item import FailedItem
from windlass.sweep.store.sweep import new_range
from windlass.value.status import Status

OPEN = (Status.WAITING, Status.RUNNING)
# Fields of a range whose column has another name.
NAMES = {
    "begin": "range_begin",
    "end": "range_end",
    "rows": "rows_estimate",
    "is_careful": "careful",
}
COLUMNS = [range_.c[NAMES.get(name, name)] for name in Range._fields]


def listing(connection: Connection, name: str) -> list[Range]:
    """The ranges of the current or the last round, in the order of their ids."""
    query = select(*COLUMNS).where(range_.c.sweep == name).order_by(range_.c.id)
    return [_range(row) for row in connection.execute(query)]


def get(connection: Connection, number: int) -> Range | None:
    """A range as it is now."""
    row = connection.execute(select(*COLUMNS).where(range_.c.id == number)).first()
    return None if row is None else _range(row)


class Claim(NamedTuple):
    """A claimed range; `poison` is the key of an item that this claim failed as poison."""

    range: Range
    poison: str | None = None


@dataclass(frozen=True)
class ClaimRequest:
    """A worker asks for a range of `sweep`.

    A careful range is only for a worker that `is_alone`: one without other ranges. A worker that
    has enough ranges takes `only_abandoned` ones. `numbers` are for a failed item and its alert.
    """

    sweep: str
    order: RangeOrder
    max_lost: int
    is_alone: bool
    batch: int
    worker: int
    now: int
    numbers: Sequence[int]
    only_abandoned: bool = False


def claim(connection: Connection, request: ClaimRequest) -> Claim | None:
    """Claim a range that waits or was abandoned; repeated with the same batch, it finds the same.

    If the dead worker of an abandoned range ran one item alone, that item fails as poison here.
    """
    own = select(*COLUMNS).where(range_.c.worker == request.worker, range_.c.batch == request.batch)
    mine = connection.execute(own).first()
    if mine is not None:
        return Claim(_range(mine))
    states = (Status.RUNNING,) if request.only_abandoned else OPEN
    free = [range_.c.sweep == request.sweep, range_.c.status.in_(states), range_.c.batch.is_(None)]
    rows = connection.execute(
        select(range_.c.id, range_.c.careful).where(*free).order_by(range_.c.id)
    ).all()
    careful = [row.id for row in rows if row.careful and request.is_alone]
    others = [row.id for row in rows if not row.careful]
    for number in [*careful, *_ordered(others, request.order)]:
        query = (
            select(*COLUMNS).where(range_.c.id == number, *free).with_for_update(skip_locked=True)
        )
        row = connection.execute(query).first()
        claimed = None if row is None else _claim(connection, _range(row), request)
        if claimed is not None:
            return claimed
    return None


def _ordered(ids: list[int], order: RangeOrder) -> list[int]:
    match order:
        case RangeOrder.DESC:
            return ids[::-1]
        case RangeOrder.RANDOM:
            return random.sample(ids, len(ids))
    return ids


def _claim(connection: Connection, found: Range, request: ClaimRequest) -> Claim | None:
    values: dict[str, Any] = {}
    poison = None
    if found.status is Status.RUNNING:
        loss = lose(found, max_lost=request.max_lost)
        values = {
            "lost": loss.lost,
            "lost_at": loss.lost_at,
            "again_to": loss.again_to,
            "careful": int(loss.is_careful),
        }
        if loss.is_poison:
            poison = found.read_to
            assert poison is not None
            _fail_as_poison(connection, found, request, poison=poison, lost=loss.lost)
            values |= {"breakpoint": poison, "failed": found.failed + 1, "lost": 0}
    values["read_to"] = values.get("breakpoint", found.breakpoint)
    change = update(range_).where(range_.c.id == found.id)
    if values.get("careful") and not request.is_alone:
        # It waits for an idle worker: items that run beside its own must not be blamed.
        connection.execute(change.values(status=Status.WAITING, worker=None, **values))
        return None
    values |= {"batch": request.batch, "worker": request.worker, "saved_at": request.now}
    connection.execute(change.values(status=Status.RUNNING, **values))
    claimed = get(connection, found.id)
    assert claimed is not None
    return Claim(claimed, poison)


def _fail_as_poison(
    connection: Connection, found: Range, request: ClaimRequest, *, poison: str, lost: int
) -> None:
    number, alert = request.numbers
    error = "poison: its worker died while it ran alone, as others had died near it before"
    failure = FailedItem(number, poison, error, found.round, lost)
    failed_item.add(connection, found.sweep, [failure], now=request.now)
    text = f"sweep {found.sweep!r} skipped key {poison}, which failed as {error}"
    raise_alert(connection, alert, Trouble("poison", found.sweep, text), now=request.now)


@dataclass
class Save:
    """The state of a range as its owner has it; saving it twice changes nothing."""

    id: int
    batch: int
    breakpoint: str | None
    done: int = 0
    failed: int = 0
    repeated: int = 0
    per_second: float = 0.0
    again_to: str | None = None
    is_careful: bool = False
    failures: list[FailedItem] = field(default_factory=list)


def save(connection: Connection, what: Save, *, sweep: str, now: int) -> bool:
    """Move the breakpoint and keep the items that failed before it; False if the range is lost."""
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
        failed_item.add(connection, sweep, what.failures, now=now)
    return True


def reserve(connection: Connection, seen: Range, read_to: str) -> bool:
    """Reserve the keys up to `read_to`, which is beyond neither the end nor `again_to`.

    False if one of these two has moved since the range was seen, or if it is lost: read it again.
    In a careful range one item runs at a time: the one reserved before must be done and saved.
    """
    columns = range_.c
    nothing_runs = columns.read_to.is_not_distinct_from(columns.breakpoint)
    reserved = connection.execute(
        update(range_)
        .where(columns.id == seen.id, columns.batch == seen.batch)
        .where(columns.range_end.is_not_distinct_from(seen.end))
        .where(columns.again_to.is_not_distinct_from(seen.again_to))
        .where(or_(columns.careful == 0, nothing_runs))
        .values(read_to=read_to)
    )
    return bool(reserved.rowcount)


def release(
    connection: Connection, what: Save, *, sweep: str, again_to: str | None, now: int
) -> bool:
    """Save a range and return it, so that any worker may claim it; False if it is lost."""
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
    """Cut an open range in two at `middle`, a key after the floor of the range that was seen.

    False if it has moved on, ended or been cut since then, or if a part would be empty. The second
    part waits for a worker.
    """
    if middle in (seen.begin, seen.end):
        return False
    half = max(1, seen.left // 2) if seen.is_counted else 0
    rest = max(1, seen.rows - half) if seen.is_counted else 0
    cut = connection.execute(
        update(range_)
        .where(range_.c.id == seen.id, range_.c.status.in_(OPEN))
        .where(range_.c.range_end.is_not_distinct_from(seen.end))
        .where(range_.c.read_to.is_not_distinct_from(seen.read_to))
        .where(range_.c.again_to.is_not_distinct_from(seen.again_to))
        .values(range_end=middle, rows_estimate=rest)
    )
    if not cut.rowcount:
        return False
    second = Tile(middle, seen.end, half)
    values = new_range(second, id_=number, sweep=seen.sweep, number=seen.round)
    connection.execute(insert(range_).values(values))
    return True


def merge(connection: Connection, one: Range, other: Range) -> bool:
    """Make one range of two untouched neighbours; False if they are no longer that."""
    query = select(*COLUMNS).where(range_.c.id.in_([one.id, other.id])).order_by(range_.c.id)
    found = {row.id: _range(row) for row in connection.execute(query.with_for_update())}
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
    """Whether the range is done, and the round that ended with it."""

    is_done: bool
    over: RoundView | None = None


def complete(
    connection: Connection, what: Save, *, sweep: str, end: str | None, now: int
) -> Completed:
    """End a range whose breakpoint has reached all that it reserved, and its `end`.

    The row of the sweep is locked first: of two ranges that end at the same time, one sees that it
    is the last.
    """
    row = sweeps.get(connection, sweep, lock=True)
    if row is None or not save(connection, what, sweep=sweep, now=now):
        return Completed(False)
    ended = connection.execute(
        update(range_)
        .where(range_.c.id == what.id, range_.c.batch == what.batch)
        .where(range_.c.range_end.is_not_distinct_from(end))
        .where(range_.c.read_to.is_not_distinct_from(what.breakpoint))
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
    return Completed(True, sweeps.end_round(connection, row, now=now))


def fall(connection: Connection, worker: int) -> int:
    """A worker died: its ranges have no owner, and nothing that it writes matches; how many."""
    sweeps.give_up_start(connection, worker=worker)
    abandoned = connection.execute(
        update(range_)
        .where(range_.c.worker == worker, range_.c.status == Status.RUNNING)
        .values(batch=None)
    )
    failed_item.abandon(connection, worker)
    requests.abandon(connection, worker)
    return abandoned.rowcount


def hand_back(connection: Connection, worker: int, *, unless: Collection[int] = ()) -> int:
    """Return the ranges, retries and visits of a worker, except those of the batches in `unless`.

    Returns how many ranges. What ran beyond the breakpoints is unknown, so it runs again.
    """
    if not unless:
        sweeps.give_up_start(connection, worker=worker)
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
                (range_.c.read_to.is_not_distinct_from(range_.c.breakpoint), None),
                else_=range_.c.read_to,
            ),
            per_second=0.0,
        )
    )
    claimed = [sweep_failure]
    if has_tables(connection, sweeps.VISITS):
        claimed.append(visit_request)
    for table in claimed:
        connection.execute(
            update(table)
            .where(table.c.worker == worker, table.c.batch.not_in(list(unless)))
            .values(batch=None, worker=None)
        )
    return handed_back.rowcount


class Free(NamedTuple):
    """The sweeps with abandoned ranges, and those with ranges that wait to run alone."""

    abandoned: set[str]
    careful: set[str]


def free(connection: Connection) -> Free:
    """Which sweeps have ranges that a worker must claim even if it has enough."""
    # Written in the order of the index, so that no range that just waits is read.
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
    """The batches under which a worker has claimed ranges or failed items."""
    found = connection.scalars(
        select(range_.c.batch).where(
            range_.c.worker == worker,
            range_.c.status == Status.RUNNING,
            range_.c.batch.is_not(None),
        )
    )
    return {*found, *failed_item.held(connection, worker), *requests.held(connection, worker)}


def _range(row: Row[Any]) -> Range:
    return Range._make(row)._replace(status=Status(row.status), is_careful=bool(row.careful))

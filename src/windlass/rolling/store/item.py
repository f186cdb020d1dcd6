"""Items of rolling kinds: rows that are visited again and again, and never end."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    Row,
    Select,
    and_,
    case,
    delete,
    func,
    insert,
    select,
    text,
    update,
)

from windlass.clock import to_datetime
from windlass.database.dialect.base import Dialect, Lane
from windlass.database.schema import bucket, tally, task
from windlass.rolling.model import Item
from windlass.rolling.store.insert import INSERTERS, NewItems
from windlass.value.period import GOES, HURRIED
from windlass.value.status import Status

SAMPLED = 10_000
# How crowded a stretch of time is, is told by so many items in so many places.
PROBED = 500
PROBES = 3
# Comes after whatever a code may go on with.
LAST = chr(0x10FFFF)


def add(connection: Connection, dialect: Dialect, new: NewItems, *, again: bool, fast: bool) -> int:
    """Write items that are not there yet; how many that were.

    `again` says that they may have been written before, by a transaction whose answer was lost.
    `fast` writes them without looking whether they are there, and raises if one of them is.
    """
    revived = _revive(connection, dialect, new)
    before = _written(connection, new) if again else 0
    if fast and not revived:
        INSERTERS.of(dialect).copy(connection, new)
        added = len(new.rows)
    else:
        added = INSERTERS.of(dialect).insert(connection, new)
        if again:
            added = _written(connection, new) - before
    if added or revived:
        count(connection, new.kind, added + revived)
    return added + revived + before


def remove(connection: Connection, dialect: Dialect, kind: str, codes: Collection[str]) -> int:
    """Delete items; one that runs now goes when its run ends. How many went or will go."""
    listed, parameters = dialect.texts(codes)
    rows = connection.execute(
        text(
            "select id, status, batch, prune_at from windlass_task "
            f"where kind = :kind and task_key {listed} order by id {dialect.hold_alone}"
        ),
        {"kind": kind, **parameters},
    ).fetchall()
    # A row that fell with its worker is nobody's.
    held = {row.id for row in rows if row.status == Status.RUNNING and row.batch is not None}
    running = [row.id for row in rows if row.id in held and row.prune_at != GOES]
    resting = [row.id for row in rows if row.id not in held]
    if running:
        connection.execute(update(task).where(task.c.id.in_(running)).values(prune_at=GOES))
    if resting:
        connection.execute(delete(task).where(task.c.id.in_(resting)))
    removed = len([row for row in rows if row.prune_at != GOES])
    if removed:
        count(connection, kind, -removed)
    return removed


def hurry(
    connection: Connection,
    dialect: Dialect,
    kind: str,
    codes: Collection[str],
    *,
    due_at: int,
    now: int,
) -> None:
    """Have waiting items visited next: those that are not due are due at `due_at`.

    Those that are due by `now` may be running, and nothing be written of that: they stay due when
    they were, which is what the end of a visit is known by, and come before all others.
    """
    listed, parameters = dialect.texts(codes)
    for change in (
        "due_at = :due_at where due_at > :now",
        f"priority = {HURRIED} where due_at <= :now and priority < {HURRIED}",
    ):
        connection.execute(
            text(
                f"update windlass_task set {change} "
                f"and kind = :kind and task_key {listed} and status = 0"
            ),
            {"kind": kind, "due_at": due_at, "now": now, **parameters},
        )


def front(connection: Connection, dialect: Dialect, kind: str, *, until: int) -> int:
    """A due time before that of every waiting item, and not after `until`."""
    first = [lane.due_at for lane in dialect.lanes(connection, [kind])]
    return min([until, *(due_at - 1 for due_at in first)])


ITEM = (
    task.c.task_key,
    task.c.status,
    task.c.last_status,
    task.c.started_at,
    task.c.finished_at,
    task.c.due_at,
    task.c.remark,
    task.c.prune_at,
)


def item(connection: Connection, kind: str, code: str) -> Item | None:
    """One item; None if it was never added, or was removed."""
    row = connection.execute(
        select(*ITEM).where(task.c.kind == kind, task.c.task_key == code)
    ).first()
    return None if row is None or row.prune_at == GOES else _item(row)


def items(connection: Connection, kind: str, *, prefix: str, after: str, limit: int) -> list[Item]:
    """Items whose codes begin with `prefix`, in byte order, after `after`."""
    query = select(*ITEM).where(task.c.kind == kind, task.c.task_key > after)
    if prefix:
        query = query.where(task.c.task_key.between(prefix, prefix + LAST))
    query = query.where(func.coalesce(task.c.prune_at, 0) != GOES)
    rows = connection.execute(query.order_by(task.c.task_key).limit(limit))
    return [_item(row) for row in rows]


def _item(row: Row[*tuple[Any, ...]]) -> Item:
    is_running = row.status == Status.RUNNING
    status = row.status if is_running or row.last_status is None else row.last_status
    started, finished, due = (
        None if moment is None else to_datetime(moment)
        for moment in (row.started_at, row.finished_at, None if is_running else row.due_at)
    )
    return Item(row.task_key, Status(status), started, finished, due, row.remark)


def find(connection: Connection, kind: str, code: str) -> int | None:
    """The id of an item's row."""
    return connection.scalar(select(task.c.id).where(task.c.kind == kind, task.c.task_key == code))


def holders(connection: Connection, kind: str, code: str) -> tuple[int | None, int | None]:
    """The worker that has an item by a claim, and the one that owns its bucket."""
    row = connection.execute(
        select(task.c.status, task.c.worker, bucket.c.owner)
        .join(bucket, bucket.c.bucket == task.c.bucket)
        .where(task.c.kind == kind, task.c.task_key == code)
    ).first()
    if row is None:
        return None, None
    return row.worker if row.status == Status.RUNNING else None, row.owner


class Page(NamedTuple):
    """Some codes in order, and where to go on; None at the end."""

    codes: list[str]
    last: str | None


def codes_after(connection: Connection, kind: str, after: str, *, limit: int) -> Page:
    """The codes of items that are not about to go, in byte order, after `after`."""
    rows = connection.execute(
        select(task.c.task_key, task.c.prune_at)
        .where(task.c.kind == kind, task.c.task_key > after)
        .order_by(task.c.task_key)
        .limit(limit)
    ).all()
    codes = [code for code, prune_at in rows if code is not None and prune_at != GOES]
    return Page(codes, rows[-1].task_key if len(rows) == limit else None)


def count(connection: Connection, kind: str, delta: int) -> None:
    """Note that there are `delta` more items."""
    connection.execute(insert(tally).values(kind=kind, delta=delta))


def total(connection: Connection, kind: str) -> int:
    """How many items there are: counted if they are few, else as the tally has it."""
    few = select(task.c.id).where(task.c.kind == kind, task.c.task_key.is_not(None))
    # In the order of the index, or a planner may walk the table for the first of them.
    few = few.order_by(task.c.task_key).limit(SAMPLED + 1)
    few = few.where(func.coalesce(task.c.prune_at, 0) != GOES)
    counted = connection.execute(select(func.count()).select_from(few.subquery())).scalar_one()
    if counted <= SAMPLED:
        return counted
    return max(counted, tallied(connection, kind))


def add_up(connection: Connection, *, limit: int) -> bool:
    """Replace the changes of the tally by their sums; whether there are more than `limit`."""
    many = connection.scalars(
        select(tally.c.kind).group_by(tally.c.kind).having(func.count() > 1).limit(100)
    ).all()
    is_more = False
    for kind in many:
        rows = connection.execute(
            select(tally.c.id, tally.c.delta)
            .where(tally.c.kind == kind)
            .order_by(tally.c.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        ).all()
        if len(rows) > 1:
            connection.execute(delete(tally).where(tally.c.id.in_([row.id for row in rows])))
            count(connection, kind, sum(row.delta for row in rows))
        is_more = is_more or len(rows) == limit
    return is_more


@dataclass(frozen=True)
class Sample:
    """The waiting items that are due first, about SAMPLED of them.

    `seen_first` is the earliest last visit among them, or adding of one that had none.
    """

    looked_at: int = 0
    due: int = 0
    never_visited: int = 0
    late: int = 0
    seen_first: int | None = None

    def __add__(self, other: Sample) -> Sample:
        seen = [each.seen_first for each in (self, other) if each.seen_first is not None]
        return Sample(
            self.looked_at + other.looked_at,
            self.due + other.due,
            self.never_visited + other.never_visited,
            self.late + other.late,
            min(seen, default=None),
        )


def sample(
    connection: Connection, dialect: Dialect, kind: str, *, until: int, late_before: int
) -> Sample:
    """Look at the first items: due by `until`, and late if last seen before `late_before`."""
    lanes = dialect.lanes(connection, [kind])
    found = Sample()
    for lane in lanes:
        limit = SAMPLED // len(lanes)
        found += _sample_lane(connection, lane, limit, until=until, late_before=late_before)
    return found


def tallied(connection: Connection, kind: str) -> int:
    """How many items there are by the tally."""
    summed = connection.scalar(select(func.sum(tally.c.delta)).where(tally.c.kind == kind))
    return int(summed or 0)


def last_visits(connection: Connection, kind: str, *, most: int) -> Sequence[int | None] | None:
    """When each item was visited last; None if there are too many to look at."""
    few = (
        select(task.c.finished_at)
        .where(task.c.kind == kind, task.c.task_key.is_not(None))
        .where(func.coalesce(task.c.prune_at, 0) != GOES)
        .order_by(task.c.task_key)
        .limit(most + 1)
    )
    found = connection.scalars(few).all()
    return None if len(found) > most else found


def estimate_due(connection: Connection, dialect: Dialect, kind: str, *, until: int) -> int:
    """About how many items are due by `until`."""
    lanes = dialect.lanes(connection, [kind])
    return sum(dialect.estimate_due(connection, lane, until=until) for lane in lanes)


def not_due(connection: Connection, dialect: Dialect, kind: str, *, until: int) -> int | None:
    """How many items run, or are due after `until`; None if more than SAMPLED are."""
    later = [
        and_(task.c.status == Status.WAITING, task.c.priority == lane.priority)
        for lane in dialect.lanes(connection, [kind])
    ]
    count = 0
    for place, since in (*((lane, until) for lane in later), (task.c.status == Status.RUNNING, 0)):
        few = (
            select(task.c.due_at)
            .where(place, task.c.kind == kind, task.c.due_at > since)
            .where(func.coalesce(task.c.prune_at, 0) != GOES)
            .order_by(task.c.priority, task.c.due_at)
            .limit(SAMPLED + 1 - count)
            .subquery()
        )
        count += connection.execute(select(func.count()).select_from(few)).scalar_one()
        if count > SAMPLED:
            return None
    return count


def crowds(connection: Connection, lane: Lane, moments: Sequence[int]) -> list[float]:
    """About how many items are due between each two moments, by a look at some of them."""
    return [
        _crowd(connection, lane, begin, end) if end >= lane.due_at else 0.0
        for begin, end in pairwise(moments)
    ]


def _crowd(connection: Connection, lane: Lane, begin: int, end: int) -> float:
    borders = [begin + (end - begin) * index // PROBES for index in range(PROBES + 1)]
    found: list[float] = []
    for since, until in pairwise(borders):
        count, last = connection.execute(_first_due(lane, since, until)).one()
        # If there are more, they are taken to be as close together as these are.
        times = 1.0 if count < PROBED else (until - since) / max(1, last - since)
        found.append(count * times)
    # Those that were added together are due at one moment: they say nothing about all others.
    most = 4 * max(PROBED, sorted(found)[PROBES // 2])
    return sum(min(each, most) for each in found)


def _first_due(lane: Lane, begin: int, end: int) -> Select[Any, Any]:
    first = (
        select(task.c.due_at)
        .where(task.c.status == Status.WAITING, task.c.kind == lane.kind)
        .where(task.c.priority == lane.priority, task.c.due_at > begin, task.c.due_at <= end)
        .order_by(task.c.due_at)
        .limit(PROBED)
        .subquery()
    )
    return select(func.count(), func.max(first.c.due_at))


def _sample_lane(
    connection: Connection, lane: Lane, limit: int, *, until: int, late_before: int
) -> Sample:
    first = (
        select(
            task.c.due_at,
            task.c.finished_at,
            func.coalesce(task.c.finished_at, task.c.created_at).label("seen_at"),
        )
        .where(task.c.status == Status.WAITING, task.c.kind == lane.kind)
        .where(task.c.priority == lane.priority, task.c.due_at.is_not(None))
        .order_by(task.c.due_at)
        .limit(limit)
        .subquery()
    )
    row = connection.execute(
        select(
            func.count(),
            func.sum(case((first.c.due_at <= until, 1), else_=0)),
            func.sum(case((first.c.finished_at.is_(None), 1), else_=0)),
            func.sum(case((first.c.seen_at <= late_before, 1), else_=0)),
            func.min(first.c.seen_at),
        ).select_from(first)
    ).one()
    looked_at, due, never, late = (int(value or 0) for value in row[:4])
    return Sample(looked_at, due, never, late, None if row[4] is None else int(row[4]))


def _revive(connection: Connection, dialect: Dialect, new: NewItems) -> int:
    """Items that were about to go stay, as they are added again."""
    some_go = select(task.c.id).where(task.c.prune_at == GOES).limit(1)
    if connection.scalar(some_go) is None:
        return 0
    revived = 0
    codes = [row.code for row in new.rows]
    for begin in range(0, len(codes), 1_000):
        listed, parameters = dialect.texts(codes[begin : begin + 1_000])
        revived += connection.execute(
            text(
                "update windlass_task set prune_at = null "
                f"where kind = :kind and task_key {listed} and prune_at = :goes"
            ),
            {"kind": new.kind, "goes": GOES, **parameters},
        ).rowcount
    return revived


def _written(connection: Connection, new: NewItems) -> int:
    numbers: Sequence[int] = [row.id for row in new.rows]
    return sum(
        connection.execute(
            select(func.count()).where(task.c.id.in_(numbers[begin : begin + 1_000]))
        ).scalar_one()
        for begin in range(0, len(numbers), 1_000)
    )


def kinds_with_items(connection: Connection) -> set[str]:
    """The rolling kinds that have items here."""
    return set(connection.scalars(select(tally.c.kind).distinct()))


def counted(
    connection: Connection,
    rows: Sequence[Mapping[str, Any]],
    sign: int,
    items: Collection[str],
) -> None:
    """Add items that came with a move between shards to the tally, or take them from it."""
    kinds = [row["kind"] for row in rows if row["task_key"] is not None and row["kind"] in items]
    for kind in sorted(set(kinds)):
        count(connection, kind, sign * kinds.count(kind))

"""How many items are due and how old their visits are, by bounded reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, select

from windlass.database.dialect.base import Tier, force_index
from windlass.database.schema import tally, task
from windlass.rolling.store.item import STAYS
from windlass.value.status import Status

SAMPLED = 10_000
# How many items are due in a span of time is estimated by this many items at this many points.
PROBED = 500
PROBES = 3


@dataclass(frozen=True)
class Sample:
    """The waiting items that are due first, about SAMPLED of them.

    `seen_first` is the earliest last visit among them; without a visit, when the item was added.
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
    connection: Connection,
    tiers: Sequence[Tier],
    *,
    until: int,
    late_before: int,
    most: int = SAMPLED,
) -> Sample:
    """Read the first items: due by `until`, and late if last seen before `late_before`."""
    found = Sample()
    for tier in tiers:
        few = (
            select(
                task.c.due_at,
                task.c.finished_at,
                func.coalesce(task.c.finished_at, task.c.created_at).label("seen_at"),
            )
            .where(_is_waiting(tier), task.c.due_at.is_not(None))
            .order_by(task.c.due_at)
            .limit(max(1, most // len(tiers)))
        )
        first = _by_due(few).subquery()
        row = connection.execute(
            select(
                func.count(),
                _count_if(first.c.due_at <= until),
                _count_if(first.c.finished_at.is_(None)),
                _count_if(first.c.seen_at <= late_before),
                func.min(first.c.seen_at),
            ).select_from(first)
        ).one()
        looked_at, due, never, late = (int(value or 0) for value in row[:4])
        found += Sample(looked_at, due, never, late, None if row[4] is None else int(row[4]))
    return found


def total(connection: Connection, kind: str, *, most: int = SAMPLED) -> int:
    """How many items there are: counted if they are few, otherwise by the tally."""
    counted = _count(connection, _items(kind, task.c.id).limit(most + 1))
    return counted if counted <= most else max(counted, tallied(connection, kind))


def tallied(connection: Connection, kind: str) -> int:
    """How many items there are by the tally."""
    summed = connection.scalar(select(func.sum(tally.c.delta)).where(tally.c.kind == kind))
    return int(summed or 0)


def last_visits(connection: Connection, kind: str, *, most: int) -> Sequence[int | None] | None:
    """When each item was visited last; None if there are more than `most`."""
    found = connection.scalars(_items(kind, task.c.finished_at).limit(most + 1)).all()
    return None if len(found) > most else found


def not_due(
    connection: Connection, tiers: Sequence[Tier], kind: str, *, until: int, most: int = SAMPLED
) -> int | None:
    """How many items are running, or due after `until`; None if more than `most` are."""
    waiting = [and_(_is_waiting(tier), task.c.due_at > until) for tier in tiers]
    running = and_(task.c.status == Status.RUNNING, task.c.kind == kind, task.c.due_at > 0)
    count = 0
    for group in (*waiting, running):
        few = select(task.c.due_at).where(group, STAYS).order_by(task.c.priority, task.c.due_at)
        count += _count(connection, _by_due(few).limit(most + 1 - count))
        if count > most:
            return None
    return count


def crowds(connection: Connection, tier: Tier, moments: Sequence[int]) -> list[float]:
    """About how many items are due between each two moments, by reading some of them."""
    return [
        _crowd(connection, tier, begin, end) if end >= tier.due_at else 0.0
        for begin, end in pairwise(moments)
    ]


def _crowd(connection: Connection, tier: Tier, begin: int, end: int) -> float:
    borders = [begin + (end - begin) * index // PROBES for index in range(PROBES + 1)]
    found: list[float] = []
    for since, until in pairwise(borders):
        few = (
            select(task.c.due_at)
            .where(_is_waiting(tier), task.c.due_at > since, task.c.due_at <= until)
            .order_by(task.c.due_at)
            .limit(PROBED)
        )
        first = _by_due(few).subquery()
        count, last = connection.execute(select(func.count(), func.max(first.c.due_at))).one()
        # If there are more, the others are assumed to be as close together as these.
        times = 1.0 if count < PROBED else (until - since) / max(1, last - since)
        found.append(count * times)
    # Items that were added together are due at one moment, and say nothing about the others.
    most = 4 * max(PROBED, sorted(found)[PROBES // 2])
    return sum(min(each, most) for each in found)


def _is_waiting(tier: Tier) -> ColumnElement[bool]:
    return and_(
        task.c.status == Status.WAITING,
        task.c.kind == tier.kind,
        task.c.priority == tier.priority,
    )


def _by_due(query: Select[Any]) -> Select[Any]:
    # MySQL would rather read all rows of the kind by another index, and sort them.
    return force_index(query, task, "windlass_task_due")


def _items(kind: str, column: ColumnElement[Any]) -> Select[Any]:
    """A column of all items; in the order of their index, or a planner may scan the table."""
    query = select(column).where(task.c.kind == kind, task.c.task_key.is_not(None), STAYS)
    return force_index(query.order_by(task.c.task_key), task, "windlass_task_key")


def _count(connection: Connection, query: Select[Any]) -> int:
    return connection.execute(select(func.count()).select_from(query.subquery())).scalar_one()


def _count_if(condition: ColumnElement[bool]) -> ColumnElement[Any]:
    return func.sum(case((condition, 1), else_=0))

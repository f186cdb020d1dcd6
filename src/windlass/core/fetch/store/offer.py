"""Offers: due rows that their owner has no time for, and that any worker may claim.

An offered row has batch 0 and an entry here, both written in one transaction. Its owner never reads
it again, but may claim it like any other worker.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select

from windlass.core.fetch.store.claim import PICKED
from windlass.database.dialect.base import Dialect, Lane, Most, Stamp, stamped
from windlass.database.dialect.choice import force_index
from windlass.database.schema import offer, task
from windlass.value.status import Status
from windlass.value.task import Claimed

OFFERED = 0


class Made(NamedTuple):
    """The ids of the offered rows, and how many others the owner kept."""

    offered: list[int]
    spared: int


def make(
    connection: Connection,
    dialect: Dialect,
    lane: Lane,
    most: Most,
    *,
    unless: Collection[int],
    spare: int = 0,
    count: int = 1_000,
) -> Made:
    """Offer up to `count` due rows of `lane` in the worker's buckets.

    Skips the rows in `unless`, and the first `spare` of the others.
    """
    due = dialect.read_ids(connection, lane, most)
    free = [number for number in due if number not in unless]
    ids, spared = free[spare : spare + count], min(spare, len(free))
    if not ids:
        return Made([], spared)
    # Another worker may hold an older entry, and be about to delete it.
    dialect.remove_offers(connection, ids)
    dialect.give_up(connection, ids)
    given_up = connection.execute(
        select(task.c.id, task.c.kind, task.c.due_at).where(
            task.c.id.in_(ids), task.c.status == Status.WAITING, task.c.batch == OFFERED
        )
    ).all()
    new = [{"task_id": row.id, "kind": row.kind, "due_at": row.due_at} for row in given_up]
    if new:
        connection.execute(insert(offer), new)
        if dialect.wakes:
            dialect.notify(connection)
    return Made([row.id for row in given_up], spared)


def kinds(connection: Connection) -> set[str]:
    """The kinds with offered rows."""
    return set(connection.scalars(select(offer.c.kind).distinct()))


def counts(connection: Connection) -> dict[str, int]:
    """How many rows of each kind are offered."""
    query = select(offer.c.kind, func.count()).group_by(offer.c.kind)
    return dict(map(tuple, connection.execute(query)))


def claim(
    connection: Connection, dialect: Dialect, kind: str, *, stamp: Stamp, limit: int
) -> list[Claimed]:
    """Take offered rows of a kind by a written claim, oldest first."""
    ids = connection.scalars(
        select(offer.c.task_id)
        .where(offer.c.kind == kind, offer.c.due_at <= stamp.now)
        .order_by(offer.c.due_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    if not ids:
        return []
    offered = (
        select(*PICKED)
        .where(task.c.id.in_(ids), task.c.status == Status.WAITING, task.c.batch == OFFERED)
        .order_by(task.c.id)
        .with_for_update()
    )
    rows = connection.execute(force_index(offered, task, "primary")).all()
    if rows:
        dialect.stamp(connection, [row.id for row in rows], stamp)
    # Also removes offers whose rows are gone.
    dialect.remove_offers(connection, ids)
    return [stamped(row, stamp) for row in sorted(rows, key=lambda row: row.due_at)]


def withdraw(connection: Connection, ids: Collection[int]) -> set[int]:
    """Delete the offers of these rows, so that no worker can claim them; returns their ids."""
    if not ids:
        return set()
    offered = set(
        connection.scalars(
            select(offer.c.task_id)
            .where(offer.c.task_id.in_(ids))
            .order_by(offer.c.task_id)
            .with_for_update()
        )
    )
    if offered:
        connection.execute(delete(offer).where(offer.c.task_id.in_(offered)))
    return offered


def count(connection: Connection) -> int:
    """How many rows are offered."""
    return int(connection.execute(select(func.count()).select_from(offer)).scalar_one())

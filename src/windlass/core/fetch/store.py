"""Written claims and offers.

A written claim stamps rows with a batch, so that they belong to one worker until they end. Call it
in a transaction that has checked that the worker is alive (`Database.write_as`).

An offer is a due row that its owner has no time for, and that any worker may claim. An offered row
has batch 0 and an entry in the offer table, both written in one transaction. Its owner never reads
it again, but may claim it like any other worker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import msgspec
from sqlalchemy import (
    BigInteger,
    Connection,
    String,
    false,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    union_all,
    update,
)

from windlass.core.ring import store as ring_store
from windlass.database.dialect.base import Dialect, Most, Stamp, Tier, force_index, stamped
from windlass.database.dialect.by_id import delete_by_id
from windlass.database.schema import offer, task, worker
from windlass.value.bucket import is_laned
from windlass.value.status import Status
from windlass.value.task import Claimed

PICKED = (
    task.c.id,
    task.c.kind,
    task.c.task_key,
    task.c.priority,
    task.c.due_at,
    task.c.payload,
    task.c.attempt,
    task.c.lost,
    task.c.started_at,
    task.c.bucket,
    task.c.flow_id,
)

KINDS = """
with recursive waiting (kind) as (
    select (
        select t.kind from windlass_task t
        where t.status = {status} and t.due_at is {due} order by t.kind limit 1
    )
    union all
    select (
        select t.kind from windlass_task t
        where t.status = {status} and t.kind > waiting.kind and t.due_at is {due}
        order by t.kind limit 1
    ) from waiting where waiting.kind is not null
)
select kind from waiting where kind is not null
"""
KINDS_WAITING = text(KINDS.format(status=0, due="not null"))
KINDS_UNENDED = (
    KINDS_WAITING,
    text(KINDS.format(status=1, due="not null")),
    text(KINDS.format(status=4, due="null")),
    text(KINDS.format(status=5, due="not null")),
)


def kinds_waiting(connection: Connection) -> list[str]:
    """The kinds that have waiting rows, found with one index lookup per kind."""
    return list(connection.scalars(KINDS_WAITING))


def kinds_unended(connection: Connection) -> set[str]:
    """The kinds that have rows that wait, run, or are with an external system."""
    return {kind for query in KINDS_UNENDED for kind in connection.scalars(query)}


def claim_foreign(
    connection: Connection,
    dialect: Dialect,
    tier: Tier,
    *,
    stamp: Stamp,
    most: Most,
    owners: Collection[int],
) -> list[Claimed]:
    """Take due rows of `tier` in buckets whose owners do not serve its kind, oldest first.

    The buckets stay locked, so that no worker that serves the kind can acquire one.
    """
    buckets = ring_store.keep(connection, owners)
    if not buckets:
        return []
    due = (
        select(*PICKED)
        .where(task.c.status == Status.WAITING, task.c.kind == tier.kind)
        .where(task.c.priority == tier.priority)
        .where(task.c.due_at.between(tier.due_at, most.due_until))
        .where(task.c.bucket.in_(buckets), task.c.batch.is_(None))
        .where(task.c.lost_in_a_row.between(most.lost.start, most.lost.stop - 1))
        .order_by(task.c.due_at)
        .limit(most.limit)
        .with_for_update(skip_locked=True)
    )
    rows = connection.execute(force_index(due, task, "windlass_task_due")).all()
    if rows:
        dialect.stamp(connection, [row.id for row in rows], stamp)
    return [stamped(row, stamp) for row in rows]


def claim_one(
    connection: Connection, number: int, stamp: Stamp, *, max_lost: int, is_rested: bool
) -> list[Claimed]:
    """Take one waiting or abandoned row, due or not; nothing if it is taken or gone.

    Takes nothing if the owner of its bucket serves its kind and may have read it, unless the kind
    `is_rested`: no worker has read its rows for a while. Leaves poison to a worker.
    """
    found = connection.execute(
        select(task.c.kind, task.c.bucket).where(task.c.id == number)
    ).first()
    if found is None or is_laned(found.bucket):
        # The owner of the bucket alone knows whether its lane is free.
        return []
    if not is_rested and _is_read_by_owner(connection, found.kind, found.bucket):
        return []
    row = connection.execute(
        select(*PICKED, task.c.status, task.c.lost_in_a_row)
        .where(task.c.id == number, task.c.batch.is_(None))
        .where(task.c.status.in_((Status.WAITING, Status.RUNNING)))
        .with_for_update()
    ).first()
    if row is None:
        return []
    lost = int(row.status == Status.RUNNING)
    taken = stamped(row[:-2], stamp, lost=lost)
    if row.lost_in_a_row + lost >= max_lost:
        return []
    connection.execute(
        update(task)
        .where(task.c.id == number)
        .values(
            status=Status.RUNNING,
            batch=stamp.batch,
            worker=stamp.worker,
            due_at=stamp.lease_end,
            attempt=taken.attempt,
            lost=taken.lost,
            lost_in_a_row=row.lost_in_a_row + lost,
            started_at=taken.started_at,
        )
    )
    return [taken]


def _is_read_by_owner(connection: Connection, kind: str, number: int) -> bool:
    """Whether the bucket's owner serves the kind. The answer holds until the transaction ends."""
    owner = ring_store.owner_of(connection, number)
    if owner is None:
        return False
    kinds = connection.scalar(
        select(worker.c.kinds).where(worker.c.id == owner, worker.c.left_at.is_(None))
    )
    return kinds is not None and kind in msgspec.json.decode(kinds)["serves"]


def some_quarantined(
    connection: Connection,
    tiers: Iterable[Tier],
    alone_from: Callable[[str], int],
    *,
    buckets: Iterable[range],
    now: int,
) -> bool:
    """Whether a due row of `tiers` in these buckets must run alone.

    `alone_from` is, by kind, how often such a row was lost in a row.
    """
    ours = [task.c.bucket.between(run.start, run.stop - 1) for run in buckets]
    return any(
        connection.scalar(
            select(task.c.id)
            .where(task.c.status == Status.WAITING, task.c.kind == tier.kind)
            # Starts at the first due row: the index may still have ended rows before it.
            .where(task.c.priority == tier.priority, task.c.due_at.between(tier.due_at, now))
            .where(task.c.lost_in_a_row >= alone_from(tier.kind), or_(false(), *ours))
            .limit(1)
        )
        for tier in tiers
    )


OFFERED = 0


class Made(NamedTuple):
    """The ids of the offered rows, and how many others the owner kept."""

    offered: list[int]
    spared: int


def make_offers(
    connection: Connection,
    dialect: Dialect,
    tier: Tier,
    most: Most,
    *,
    unless: Collection[int],
    spare: int = 0,
    count: int = 1_000,
) -> Made:
    """Offer up to `count` due rows of `tier` in the worker's buckets.

    Skips the rows in `unless`, and the first `spare` of the others.
    """
    due = dialect.read_ids(connection, tier, most)
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


# Made once, as it runs in each look for due rows: to make a statement costs more than to run it.
OFFERED_AND_PRESENT = union_all(
    select(offer.c.kind, literal(None, BigInteger).label("id")).distinct(),
    select(literal(None, String), worker.c.id).where(worker.c.left_at.is_(None)),
)


def offered_and_present(connection: Connection) -> tuple[set[str], set[int]]:
    """The kinds with offered rows, and the ids of all workers that have not left."""
    rows = connection.execute(OFFERED_AND_PRESENT).all()
    kinds = {kind for kind, number in rows if number is None}
    return kinds, {number for _, number in rows if number is not None}


def offered_counts(connection: Connection) -> dict[str, int]:
    """How many rows of each kind are offered."""
    query = select(offer.c.kind, func.count()).group_by(offer.c.kind)
    return dict(map(tuple, connection.execute(query)))


def claim_offered(
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


def withdraw_offers(connection: Connection, ids: Collection[int]) -> set[int]:
    """Delete the offers of these rows, so that no worker can claim them; returns their ids."""
    if not ids:
        return set()
    query = select(offer.c.task_id).where(offer.c.task_id.in_(ids)).order_by(offer.c.task_id)
    offered = set(connection.scalars(force_index(query.with_for_update(), offer, "primary")))
    if offered:
        delete_by_id(connection, offer, offered)
    return offered


def offered_count(connection: Connection) -> int:
    """How many rows are offered."""
    return int(connection.execute(select(func.count()).select_from(offer)).scalar_one())

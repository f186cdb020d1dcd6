"""Buckets: which worker reads which part of the task rows.

A bucket has one owner or none. Only its owner reads its rows without claiming them. So acquiring
and releasing a bucket are writes that other workers wait for. Call them in a transaction that has
checked that the worker is alive, or that holds the exclusive lock on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from windlass.database.schema import bucket


class Bucket(NamedTuple):
    """The owner of a bucket, and when its last owner that died was marked dead; 0 if none died."""

    owner: int | None
    careful_to: int


def acquire(connection: Connection, worker: int, wanted: range) -> None:
    """Own the wanted buckets that have no owner."""
    if wanted:
        connection.execute(
            update(bucket)
            .where(bucket.c.bucket.between(wanted[0], wanted[-1]), bucket.c.owner.is_(None))
            .values(owner=worker)
        )


def owned(connection: Connection, worker: int) -> dict[int, int]:
    """The buckets of a worker, each with its `careful_to`."""
    rows = connection.execute(
        select(bucket.c.bucket, bucket.c.careful_to).where(bucket.c.owner == worker)
    )
    return {row.bucket: row.careful_to for row in rows}


def release(connection: Connection, worker: int, given_up: Iterable[int]) -> None:
    """Free these buckets of a worker."""
    connection.execute(
        update(bucket)
        .where(bucket.c.bucket.in_(sorted(given_up)), bucket.c.owner == worker)
        .values(owner=None)
    )


def leave(connection: Connection, worker: int) -> None:
    """Free all buckets of a worker that stops normally."""
    connection.execute(update(bucket).where(bucket.c.owner == worker).values(owner=None))


def abandon(connection: Connection, worker: int, *, now: int) -> None:
    """Free all buckets of a worker that died. A row that was due by now may have killed it."""
    connection.execute(
        update(bucket).where(bucket.c.owner == worker).values(owner=None, careful_to=now)
    )


def listing(connection: Connection) -> dict[int, Bucket]:
    """All buckets."""
    rows = connection.execute(select(bucket).order_by(bucket.c.bucket))
    return {row.bucket: Bucket(row.owner, row.careful_to) for row in rows}


def owner(connection: Connection, number: int) -> int | None:
    """The owner of a bucket; it stays the owner until the transaction ends."""
    query = select(bucket.c.owner).where(bucket.c.bucket == number).with_for_update(read=True)
    return connection.scalar(query)


def kept_owners(connection: Connection, numbers: Iterable[int]) -> dict[int, int | None]:
    """The owners of these buckets; they stay the owners until the transaction ends."""
    rows = connection.execute(
        select(bucket.c.bucket, bucket.c.owner)
        .where(bucket.c.bucket.in_(sorted(numbers)))
        .order_by(bucket.c.bucket)
        .with_for_update(read=True)
    )
    return {row.bucket: row.owner for row in rows}


def keep(connection: Connection, owners: Collection[int]) -> list[int]:
    """The buckets of these owners; they stay theirs until the transaction ends."""
    return list(
        connection.scalars(
            select(bucket.c.bucket)
            .where(bucket.c.owner.in_(owners))
            .order_by(bucket.c.bucket)
            .with_for_update(read=True)
        )
    )


def runs(buckets: Iterable[int]) -> list[range]:
    """Buckets as contiguous runs."""
    found: list[range] = []
    for number in sorted(buckets):
        if found and found[-1].stop == number:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return found

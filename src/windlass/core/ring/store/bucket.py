"""Buckets: which worker reads which part of the task rows.

A bucket has one owner or none. Only its owner reads its rows without claiming them, so taking one
that is free and giving one up are writes that others wait for; each begins by making sure that the
worker is alive, or locks it alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from windlass.database.schema import bucket


class Bucket(NamedTuple):
    """Who owns a bucket, and when its last owner that died was buried; 0 if none has."""

    owner: int | None
    careful_to: int


def acquire(connection: Connection, worker: int, wanted: range) -> None:
    """Own those of the wanted buckets that nobody owns. Call it knowing the worker to be alive."""
    if wanted:
        connection.execute(
            update(bucket)
            .where(bucket.c.bucket.between(wanted[0], wanted[-1]), bucket.c.owner.is_(None))
            .values(owner=worker)
        )


def owned(connection: Connection, worker: int) -> dict[int, int]:
    """The buckets of a worker, each with the moment up to which it is to be careful."""
    rows = connection.execute(
        select(bucket.c.bucket, bucket.c.careful_to).where(bucket.c.owner == worker)
    )
    return {row.bucket: row.careful_to for row in rows}


def release(connection: Connection, worker: int, given_up: Iterable[int]) -> None:
    """Own those no longer."""
    connection.execute(
        update(bucket)
        .where(bucket.c.bucket.in_(sorted(given_up)), bucket.c.owner == worker)
        .values(owner=None)
    )


def leave(connection: Connection, worker: int) -> None:
    """A worker that goes in good order owns nothing from now on."""
    connection.execute(update(bucket).where(bucket.c.owner == worker).values(owner=None))


def abandon(connection: Connection, worker: int, *, now: int) -> None:
    """A worker that died owns nothing. What was due by now may be what it died of."""
    connection.execute(
        update(bucket).where(bucket.c.owner == worker).values(owner=None, careful_to=now)
    )


def owners(connection: Connection) -> dict[int, int | None]:
    """Who owns each bucket."""
    rows = connection.execute(select(bucket.c.bucket, bucket.c.owner).order_by(bucket.c.bucket))
    return {row.bucket: row.owner for row in rows}


def listing(connection: Connection) -> dict[int, Bucket]:
    """All buckets."""
    rows = connection.execute(select(bucket).order_by(bucket.c.bucket))
    return {row.bucket: Bucket(row.owner, row.careful_to) for row in rows}


def owner(connection: Connection, number: int) -> int | None:
    """Who owns a bucket, which stays so until the transaction ends."""
    query = select(bucket.c.owner).where(bucket.c.bucket == number).with_for_update(read=True)
    return connection.scalar(query)


def kept_owners(connection: Connection, numbers: Iterable[int]) -> dict[int, int | None]:
    """Who owns each of these buckets, which stays so until the transaction ends."""
    rows = connection.execute(
        select(bucket.c.bucket, bucket.c.owner)
        .where(bucket.c.bucket.in_(sorted(numbers)))
        .order_by(bucket.c.bucket)
        .with_for_update(read=True)
    )
    return {row.bucket: row.owner for row in rows}


def keep(connection: Connection, owners: Collection[int]) -> list[int]:
    """The buckets of these owners, which stay theirs until the transaction ends."""
    return list(
        connection.scalars(
            select(bucket.c.bucket)
            .where(bucket.c.owner.in_(owners))
            .order_by(bucket.c.bucket)
            .with_for_update(read=True)
        )
    )


def runs(buckets: Iterable[int]) -> list[range]:
    """Buckets as the contiguous runs that they make."""
    found: list[range] = []
    for number in sorted(buckets):
        if found and found[-1].stop == number:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return found

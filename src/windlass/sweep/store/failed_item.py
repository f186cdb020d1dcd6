"""Failed items of sweeps, and single keys that were visited.

An item has one row; if it fails again the row is replaced. A retry is a claim like any other: it
has a batch, and a worker that has lost it changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, func, insert, or_, select, update

from windlass.core.face import Tidying
from windlass.database.dialect.base import Dialect
from windlass.database.schema import sweep_failure, visit
from windlass.sweep.model import AT_ONCE, hash_of
from windlass.value.status import Status

KEEP_VISITS = 7 * 86_400 * 1_000_000
DIED = "its worker died while it was retried; it waits until another retry is asked for"


class FailedItem(NamedTuple):
    """The row of a failed item; the key is encoded as text."""

    id: int
    item_key: str
    error: str
    round: int
    tries: int
    # When it is retried; None: when an operator asks for it.
    retry_at: int | None = None
    # Set when the row is written.
    failed_at: int = 0


COLUMNS = [sweep_failure.c[name] for name in FailedItem._fields]


class Visited(NamedTuple):
    """The last visit of a key, and its result."""

    visited_at: int
    status: Status
    error: str | None


def add(connection: Connection, sweep: str, failures: Sequence[FailedItem], *, now: int) -> None:
    """Keep items that failed; the row of an item that failed before is replaced."""
    last = list({failure.item_key: failure for failure in failures}.values())
    for begin in range(0, len(last), AT_ONCE):
        some = last[begin : begin + AT_ONCE]
        hashes = [hash_of(failure.item_key) for failure in some]
        connection.execute(
            delete(sweep_failure).where(
                sweep_failure.c.sweep == sweep, sweep_failure.c.key_hash.in_(hashes)
            )
        )
        connection.execute(
            insert(sweep_failure),
            [
                {**failure._asdict(), "failed_at": now, "sweep": sweep, "key_hash": key_hash}
                for key_hash, failure in zip(hashes, some, strict=True)
            ],
        )


def listing(connection: Connection, sweep: str, *, limit: int) -> list[FailedItem]:
    """Failed items, newest first."""
    rows = connection.execute(
        select(*COLUMNS)
        # One that was put off before its first try ended has not failed.
        .where(sweep_failure.c.sweep == sweep, sweep_failure.c.tries > 0)
        .order_by(sweep_failure.c.failed_at.desc(), sweep_failure.c.id.desc())
        .limit(limit)
    )
    return [FailedItem(*row) for row in rows]


def count(connection: Connection, sweep: str) -> int:
    """How many failed items a sweep has."""
    query = (
        select(func.count())
        .select_from(sweep_failure)
        .where(sweep_failure.c.sweep == sweep, sweep_failure.c.tries > 0)
    )
    return int(connection.execute(query).scalar_one())


def ask_retry(
    connection: Connection, sweep: str, *, now: int, keys: Sequence[str] | None = None
) -> int:
    """Have failed items retried, all or those with these keys; how many that are."""
    query = (
        update(sweep_failure)
        .where(sweep_failure.c.sweep == sweep, sweep_failure.c.batch.is_(None))
        .where(or_(sweep_failure.c.retry_at.is_(None), sweep_failure.c.retry_at > now))
        .values(retry_at=now)
    )
    if keys is None:
        connection.execute(query)
        return count(connection, sweep)
    hashes = [hash_of(key) for key in keys]
    return connection.execute(query.where(sweep_failure.c.key_hash.in_(hashes))).rowcount


def claim(
    connection: Connection, sweep: str, *, batch: int, worker: int, now: int, limit: int
) -> list[FailedItem]:
    """Claim items that are due to be retried; repeated with the same batch, it finds the same."""
    own = select(*COLUMNS).where(sweep_failure.c.worker == worker, sweep_failure.c.batch == batch)
    mine = connection.execute(own).all()
    if mine:
        return [FailedItem(*row) for row in mine]
    rows = connection.execute(
        select(*COLUMNS)
        .where(*_is_due(sweep, now))
        .order_by(sweep_failure.c.retry_at, sweep_failure.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    taken = [FailedItem(*row) for row in rows]
    if taken:
        connection.execute(
            update(sweep_failure)
            .where(sweep_failure.c.id.in_([failure.id for failure in taken]))
            .values(batch=batch, worker=worker)
        )
    return taken


def settle(
    connection: Connection,
    *,
    batch: int,
    succeeded: Collection[int],
    failed: dict[int, str],
    now: int,
) -> None:
    """Delete the claimed items that succeeded now, and release those that failed again."""
    if succeeded:
        connection.execute(
            delete(sweep_failure).where(
                sweep_failure.c.id.in_(list(succeeded)), sweep_failure.c.batch == batch
            )
        )
    for number, error in sorted(failed.items()):
        connection.execute(
            update(sweep_failure)
            .where(sweep_failure.c.id == number, sweep_failure.c.batch == batch)
            .values(failed_at=now, **_failed_again(error))
        )


def put_off(connection: Connection, *, batch: int, until: Mapping[int, int]) -> None:
    """Release claimed items that were put off, each to be tried again at its time."""
    for number, retry_at in sorted(until.items()):
        connection.execute(
            update(sweep_failure)
            .where(sweep_failure.c.id == number, sweep_failure.c.batch == batch)
            .values(retry_at=retry_at, batch=None, worker=None)
        )


def abandon(connection: Connection, worker: int) -> None:
    """A worker died: the items that it was retrying wait until another retry is asked for.

    One of these items may have killed the worker; an automatic retry could kill the next one.
    """
    connection.execute(
        update(sweep_failure)
        .where(sweep_failure.c.worker == worker, sweep_failure.c.batch.is_not(None))
        .values(_failed_again(DIED))
    )


def held(connection: Connection, worker: int) -> set[int]:
    """The batches under which a worker has claimed items."""
    query = select(sweep_failure.c.batch).where(
        sweep_failure.c.worker == worker, sweep_failure.c.batch.is_not(None)
    )
    return set(connection.scalars(query.distinct()))


def visited(connection: Connection, sweep: str, key: str) -> Visited | None:
    """When a key was visited last."""
    row = connection.execute(
        select(visit.c.visited_at, visit.c.status, visit.c.error).where(
            visit.c.sweep == sweep, visit.c.key_hash == hash_of(key)
        )
    ).first()
    return None if row is None else Visited(row[0], Status(row[1]), row[2])


def note_visit(
    connection: Connection, dialect: Dialect, sweep: str, *, key: str, what: Visited
) -> None:
    """Record the visit of a key and its result."""
    key_hash = hash_of(key)
    values = what._asdict()
    dialect.ensure(connection, visit, sweep=sweep, key_hash=key_hash, item_key=key, **values)
    connection.execute(
        update(visit)
        .where(visit.c.sweep == sweep, visit.c.key_hash == key_hash)
        .where(visit.c.visited_at <= what.visited_at)
        .values(values)
    )


def forget(connection: Connection, sweep: str, key: str) -> None:
    """An item succeeded: delete its row, unless a worker is retrying it."""
    connection.execute(
        delete(sweep_failure).where(
            sweep_failure.c.sweep == sweep,
            sweep_failure.c.key_hash == hash_of(key),
            sweep_failure.c.batch.is_(None),
        )
    )


def prune(tidying: Tidying) -> int:
    """Delete old visits; maintenance does not count them."""
    old = visit.c.visited_at < tidying.now - KEEP_VISITS
    tidying.connection.execute(delete(visit).where(old))
    return 0


def _is_due(sweep: str, now: int) -> tuple[ColumnElement[bool], ...]:
    columns = sweep_failure.c
    return columns.sweep == sweep, columns.retry_at <= now, columns.batch.is_(None)


def _failed_again(error: str) -> dict[str, Any]:
    tries = sweep_failure.c.tries + 1
    return {"error": error, "tries": tries, "retry_at": None, "batch": None, "worker": None}

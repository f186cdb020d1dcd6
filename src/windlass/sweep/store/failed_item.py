"""Items of sweeps that failed and were set aside, and single keys that were visited.

An item is set aside once; if it fails again the row says so. A retry is a claim like any other: a
batch, a worker that is alive, and nothing is changed by whoever has lost it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, delete, func, insert, or_, select, update

from windlass.database.dialect.base import Dialect
from windlass.database.schema import sweep_failure, visit
from windlass.value.status import Status

AT_ONCE = 500
KEEP_VISITS = 7 * 86_400 * 1_000_000
DIED = "its worker died while it was tried again; it waits until it is asked for once more"


class NewFailure(NamedTuple):
    """An item that is to be set aside; the key is its text."""

    id: int
    key: str
    error: str
    round: int
    tries: int
    # When it is to be tried again; None: when somebody asks for it.
    retry_at: int | None = None


class Failure(NamedTuple):
    """An item that was set aside."""

    id: int
    key: str
    error: str
    round: int
    failed_at: int
    tries: int


class Visited(NamedTuple):
    """When a key was visited last, and what came of it."""

    visited_at: int
    status: Status
    error: str | None


def hash_of(key: str) -> str:
    """A short name of a key, for an index."""
    return blake2b(key.encode(), digest_size=16).hexdigest()


def set_aside(
    connection: Connection, sweep: str, failures: Sequence[NewFailure], *, now: int
) -> None:
    """Keep items that failed; one that was there already is replaced."""
    last = {failure.key: failure for failure in failures}
    for begin in range(0, len(last), AT_ONCE):
        some = list(last.values())[begin : begin + AT_ONCE]
        hashes = [hash_of(failure.key) for failure in some]
        connection.execute(
            delete(sweep_failure).where(
                sweep_failure.c.sweep == sweep, sweep_failure.c.key_hash.in_(hashes)
            )
        )
        connection.execute(
            insert(sweep_failure),
            [
                {
                    "id": failure.id,
                    "sweep": sweep,
                    "key_hash": name,
                    "item_key": failure.key,
                    "round": failure.round,
                    "failed_at": now,
                    "tries": failure.tries,
                    "retry_at": failure.retry_at,
                    "error": failure.error,
                }
                for name, failure in zip(hashes, some, strict=True)
            ],
        )


def listing(connection: Connection, sweep: str, *, limit: int) -> list[Failure]:
    """Items that are set aside, newest first."""
    rows = connection.execute(
        _failures()
        .where(sweep_failure.c.sweep == sweep)
        .order_by(sweep_failure.c.failed_at.desc(), sweep_failure.c.id.desc())
        .limit(limit)
    )
    return [Failure(*row) for row in rows]


def count(connection: Connection, sweep: str) -> int:
    """How many items are set aside."""
    query = select(func.count()).select_from(sweep_failure).where(sweep_failure.c.sweep == sweep)
    return int(connection.execute(query).scalar_one())


def ask_retry(
    connection: Connection, sweep: str, *, now: int, keys: Sequence[str] | None = None
) -> int:
    """Have items that are set aside run again, all or those with these keys; how many that are."""
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


def is_asked(connection: Connection, sweep: str, *, now: int) -> bool:
    """Whether items are to be tried again by now, and nobody has taken them."""
    query = select(sweep_failure.c.id).where(
        sweep_failure.c.sweep == sweep,
        sweep_failure.c.retry_at <= now,
        sweep_failure.c.batch.is_(None),
    )
    return connection.scalar(query.limit(1)) is not None


def claim(
    connection: Connection,
    dialect: Dialect,
    sweep: str,
    *,
    batch: int,
    worker: int,
    now: int,
    limit: int,
) -> list[Failure]:
    """Take items that are to be tried again; done again, it finds its own work."""
    if not dialect.alive(connection, worker):
        return []
    own = _failures().where(sweep_failure.c.worker == worker, sweep_failure.c.batch == batch)
    mine = connection.execute(own).all()
    if mine:
        return [Failure(*row) for row in mine]
    rows = connection.execute(
        _failures()
        .where(sweep_failure.c.sweep == sweep, sweep_failure.c.retry_at <= now)
        .where(sweep_failure.c.batch.is_(None))
        .order_by(sweep_failure.c.retry_at, sweep_failure.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    taken = [Failure(*row) for row in rows]
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
    well: Collection[int],
    failed: dict[int, str],
    now: int,
) -> int:
    """Forget items that are well now, and keep those that failed again; how many were well."""
    forgotten = 0
    if well:
        gone = delete(sweep_failure).where(
            sweep_failure.c.id.in_(list(well)), sweep_failure.c.batch == batch
        )
        forgotten = connection.execute(gone).rowcount
    for number, error in sorted(failed.items()):
        connection.execute(
            update(sweep_failure)
            .where(sweep_failure.c.id == number, sweep_failure.c.batch == batch)
            .values(
                error=error,
                failed_at=now,
                tries=sweep_failure.c.tries + 1,
                retry_at=None,
                batch=None,
                worker=None,
            )
        )
    return forgotten


def let_go(connection: Connection, worker: int, *, unless: Collection[int] = ()) -> None:
    """What a worker had taken to try again waits for another one, but for these batches."""
    connection.execute(
        update(sweep_failure)
        .where(sweep_failure.c.worker == worker, sweep_failure.c.batch.not_in(list(unless)))
        .values(batch=None, worker=None)
    )


def fall(connection: Connection, worker: int) -> None:
    """A worker died: what it was trying again waits until somebody asks for it once more.

    One of these items may have killed it, and must not kill the next one by itself.
    """
    connection.execute(
        update(sweep_failure)
        .where(sweep_failure.c.worker == worker, sweep_failure.c.batch.is_not(None))
        .values(
            error=DIED,
            tries=sweep_failure.c.tries + 1,
            retry_at=None,
            batch=None,
            worker=None,
        )
    )


def held(connection: Connection, worker: int) -> set[int]:
    """The batches under which a worker has taken items to try them again."""
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
    connection: Connection, dialect: Dialect, sweep: str, key: str, what: Visited
) -> None:
    """Remember that a key was visited, and what came of it."""
    name = hash_of(key)
    values = what._asdict()
    dialect.ensure(connection, visit, sweep=sweep, key_hash=name, item_key=key, **values)
    connection.execute(
        update(visit)
        .where(visit.c.sweep == sweep, visit.c.key_hash == name)
        .where(visit.c.visited_at <= what.visited_at)
        .values(values)
    )


def forget(connection: Connection, sweep: str, key: str) -> None:
    """An item is well: it is no longer set aside, unless somebody is trying it."""
    connection.execute(
        delete(sweep_failure).where(
            sweep_failure.c.sweep == sweep,
            sweep_failure.c.key_hash == hash_of(key),
            sweep_failure.c.batch.is_(None),
        )
    )


def prune(connection: Connection, *, now: int) -> None:
    """Forget visits of long ago."""
    connection.execute(delete(visit).where(visit.c.visited_at < now - KEEP_VISITS))


def _failures() -> Select[Any]:
    return select(
        sweep_failure.c.id,
        sweep_failure.c.item_key,
        sweep_failure.c.error,
        sweep_failure.c.round,
        sweep_failure.c.failed_at,
        sweep_failure.c.tries,
    )

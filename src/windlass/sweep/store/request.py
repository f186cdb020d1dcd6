"""Visits of single keys that are asked for or run, and what rounds did of late.

A row in `visit_request` is a visit that waits or runs; it is gone when the visit has ended. It runs
under a batch: a worker's, which ends with the worker, or a caller's, which ends at a moment unless
it is renewed. So one key is visited by one at a time, over all threads and processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    delete,
    func,
    literal,
    or_,
    select,
    union_all,
    update,
)

from windlass.core.face import Tidying
from windlass.database.database import has_tables
from windlass.database.dialect.base import Dialect
from windlass.database.schema import sweep_done, sweep_fresh, visit, visit_request
from windlass.sweep.model import AT_ONCE, hash_of
from windlass.sweep.store.sweep import (
    ASKED_FOR,
    LONGEST_FRESH,
    VISITS,
    is_due,
    is_free,
    wanted_fresh,
)

# A visit is dropped after this many of its workers have died.
MOST_LOST = 3


class VisitRequest(NamedTuple):
    """A visit that is asked for; the key is encoded as text."""

    key_hash: str
    item_key: str
    asked_at: int
    fresh: int | None


class KeyState(NamedTuple):
    """What is known of a key: whether a visit waits or runs, and when it was last done."""

    is_asked: bool = False
    visited_at: int | None = None
    done_at: int | None = None

    @property
    def last_at(self) -> int | None:
        return max((at for at in (self.visited_at, self.done_at) if at is not None), default=None)


COLUMNS = [visit_request.c[name] for name in VisitRequest._fields]


def state_of(connection: Connection, sweep: str, key: str) -> KeyState:
    """What is known of a key, in one statement."""
    key_hash = hash_of(key)
    parts = (
        (0, visit_request, visit_request.c.asked_at),
        (1, visit, visit.c.visited_at),
        (2, sweep_done, sweep_done.c.done_at),
    )
    query = union_all(
        *(
            select(literal(number).label("part"), moment.label("at")).where(
                _is_key(table, sweep, key_hash)
            )
            for number, table, moment in parts
        )
    )
    found = {int(part): int(at) for part, at in connection.execute(query)}
    return KeyState(0 in found, found.get(1), found.get(2))


def done_at(connection: Connection, sweep: str, key: str) -> int | None:
    """When a round last did a key, as far as that is remembered."""
    if not has_tables(connection, VISITS):
        return None
    query = select(sweep_done.c.done_at).where(_is_key(sweep_done, sweep, hash_of(key)))
    found = connection.scalar(query)
    return None if found is None else int(found)


def pending(connection: Connection, sweep: str, *, most: int) -> int:
    """How many visits of a sweep are asked for or run, counted up to `most`."""
    few = select(visit_request.c.key_hash).where(visit_request.c.sweep == sweep).limit(most)
    return connection.execute(select(func.count()).select_from(few.subquery())).scalar_one()


def ask(
    connection: Connection, dialect: Dialect, sweep: str, *, key: str, now: int, fresh: int | None
) -> None:
    """Ask for a visit, unless one is asked for or runs."""
    dialect.ensure(
        connection,
        visit_request,
        sweep=sweep,
        key_hash=hash_of(key),
        item_key=key,
        asked_at=now,
        fresh=fresh,
    )


def hold(
    connection: Connection,
    dialect: Dialect,
    sweep: str,
    *,
    key: str,
    batch: int,
    now: int,
    until: int,
) -> bool:
    """Let a caller visit a key until `until`; False if another visit of it runs."""
    key_hash = hash_of(key)
    values = {"batch": batch, "worker": None, "held_until": until}
    taken = connection.execute(
        update(visit_request)
        .where(_is_key(visit_request, sweep, key_hash), is_free(now))
        .values(values)
    )
    if taken.rowcount:
        return True
    row = {"sweep": sweep, "key_hash": key_hash, "item_key": key, "asked_at": now, **values}
    dialect.ensure(connection, visit_request, **row)
    query = select(visit_request.c.batch).where(_is_key(visit_request, sweep, key_hash))
    return connection.scalar(query) == batch


def renew(connection: Connection, sweep: str, *, key: str, batch: int, until: int) -> None:
    """Hold a key for longer."""
    connection.execute(
        update(visit_request)
        .where(_is_key(visit_request, sweep, hash_of(key)), visit_request.c.batch == batch)
        .values(held_until=until)
    )


def end(connection: Connection, sweep: str, keys: Iterable[str], *, batch: int) -> None:
    """Visits of these keys have ended."""
    hashes = [hash_of(key) for key in keys]
    connection.execute(
        delete(visit_request).where(
            visit_request.c.sweep == sweep,
            visit_request.c.key_hash.in_(hashes),
            visit_request.c.batch == batch,
        )
    )


def claim(
    connection: Connection, sweep: str, *, batch: int, worker: int, now: int, limit: int
) -> list[VisitRequest]:
    """Claim visits that are asked for; repeated with the same batch, it finds the same."""
    own = select(*COLUMNS).where(visit_request.c.worker == worker, visit_request.c.batch == batch)
    mine = connection.execute(own).all()
    if mine:
        return [VisitRequest(*row) for row in mine]
    rows = connection.execute(
        select(*COLUMNS)
        .where(visit_request.c.sweep == sweep, is_due(now))
        .order_by(visit_request.c.asked_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    taken = [VisitRequest(*row) for row in rows]
    if taken:
        hashes = [each.key_hash for each in taken]
        connection.execute(
            update(visit_request)
            .where(visit_request.c.sweep == sweep, visit_request.c.key_hash.in_(hashes))
            .values(batch=batch, worker=worker, held_until=None)
        )
    return taken


def put_off(connection: Connection, sweep: str, *, batch: int, until: Mapping[str, int]) -> None:
    """Let these visits be run later, by any worker, each from its moment on."""
    for key_hash, at in sorted(until.items()):
        connection.execute(
            update(visit_request)
            .where(_is_key(visit_request, sweep, key_hash), visit_request.c.batch == batch)
            .values(batch=None, worker=None, asked_at=at)
        )


def abandon(connection: Connection, worker: int) -> None:
    """A worker died: others run its visits, except those that several workers died with."""
    if not has_tables(connection, VISITS):
        return
    connection.execute(
        delete(visit_request).where(
            visit_request.c.worker == worker, visit_request.c.lost >= MOST_LOST - 1
        )
    )
    connection.execute(
        update(visit_request)
        .where(visit_request.c.worker == worker)
        .values(batch=None, worker=None, lost=visit_request.c.lost + 1)
    )


def held(connection: Connection, worker: int) -> set[int]:
    """The batches under which a worker runs visits."""
    if not has_tables(connection, VISITS):
        return set()
    query = select(visit_request.c.batch).where(
        visit_request.c.worker == worker, visit_request.c.batch.is_not(None)
    )
    return set(connection.scalars(query.distinct()))


def want_fresh(
    connection: Connection, dialect: Dialect, sweep: str, *, fresh: int, now: int
) -> None:
    """A visit asks how fresh a key is: rounds write down what they do, for that long."""
    dialect.ensure(connection, sweep_fresh, sweep=sweep, fresh=fresh, asked_at=now)
    is_old = sweep_fresh.c.asked_at < now - ASKED_FOR
    connection.execute(
        update(sweep_fresh)
        .where(sweep_fresh.c.sweep == sweep, or_(sweep_fresh.c.fresh <= fresh, is_old))
        .values(fresh=fresh)
    )
    connection.execute(
        update(sweep_fresh)
        .where(sweep_fresh.c.sweep == sweep, sweep_fresh.c.asked_at < now)
        .values(asked_at=now)
    )


def prune(tidying: Tidying) -> int:
    """Forget what rounds did longer ago than visits ask for."""
    connection, now = tidying.connection, tidying.now
    if not has_tables(connection, VISITS):
        return 0
    wanted = wanted_fresh(connection, now=now)
    pruned = 0
    for name in connection.scalars(select(sweep_done.c.sweep).distinct()).all():
        old = and_(
            sweep_done.c.sweep == name,
            sweep_done.c.done_at < now - wanted.get(name, LONGEST_FRESH),
        )
        hashes = connection.scalars(
            select(sweep_done.c.key_hash)
            .where(old)
            .order_by(sweep_done.c.done_at)
            .limit(tidying.limit)
        ).all()
        for begin in range(0, len(hashes), AT_ONCE):
            some = hashes[begin : begin + AT_ONCE]
            connection.execute(delete(sweep_done).where(old, sweep_done.c.key_hash.in_(some)))
        pruned += len(hashes)
    return pruned


def last_done(
    connection: Connection, sweep: str, requests: Sequence[VisitRequest]
) -> dict[str, int]:
    """When the keys of these requests were last done, of those that were."""
    hashes = [each.key_hash for each in requests]
    found: dict[str, int] = {}
    for table, moment in ((visit, visit.c.visited_at), (sweep_done, sweep_done.c.done_at)):
        query = select(table.c.key_hash, moment)
        rows = connection.execute(query.where(table.c.sweep == sweep, table.c.key_hash.in_(hashes)))
        for key_hash, at in rows:
            found[key_hash] = max(int(at), found.get(key_hash, 0))
    return found


def _is_key(table: Table, sweep: str, key_hash: str) -> ColumnElement[bool]:
    return and_(table.c.sweep == sweep, table.c.key_hash == key_hash)

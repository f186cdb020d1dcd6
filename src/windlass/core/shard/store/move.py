"""Moving rows from one shard to another: the statements of each step.

While a row moves it has the batch LEAVING in the source, and its copy in the target has COMING. No
worker takes either. `core/shard/move.py` describes the steps. What faces have beside a row moves
along with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, and_, delete, or_, select, update

from windlass.core.face import Faces, Read, Values
from windlass.core.fetch import store as fetch_store
from windlass.core.fetch.store import OFFERED
from windlass.core.ring import store as ring_store
from windlass.core.task.store import lane
from windlass.database.dialect.base import Dialect, force_index
from windlass.database.dialect.by_id import delete_by_id
from windlass.database.schema import task
from windlass.value.bucket import home_name, owned_with
from windlass.value.shard import COMING, LEAVING
from windlass.value.status import Status

ENDED = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)


class Seen(NamedTuple):
    """A row as the mover has read it."""

    id: int
    kind: str
    key: str | None
    status: Status
    batch: int | None
    due_at: int | None
    bucket: int
    # A flow run moves after its end, with its nodes.
    is_run: bool = False
    lane: str | None = None

    @property
    def home(self) -> str | None:
        """The key that decides about its shard; None if it may be in any."""
        return self.key if self.lane is None else home_name(self.lane)

    @property
    def is_abandoned(self) -> bool:
        """Whether its worker died, and no other has taken it over."""
        return self.status is Status.RUNNING and self.batch is None and not self.is_run

    def is_due(self, by: int) -> bool:
        return self.due_at is not None and self.due_at <= by

    def could_go(self, *, due_after: int) -> bool:
        """Whether no worker can have it, if rows that are due later are free."""
        if self.is_abandoned:
            return True
        if self.status in ENDED:
            return self.batch is None
        is_waiting = self.status is Status.WAITING and self.batch in (None, OFFERED)
        return is_waiting and not self.is_due(due_after)


def after(connection: Connection, number: int | None, *, limit: int) -> list[Seen]:
    """The next rows in the order of their ids, without nodes: they move with their flow run."""
    query = select(
        task.c.id,
        task.c.kind,
        task.c.task_key,
        task.c.status,
        task.c.batch,
        task.c.due_at,
        task.c.bucket,
        task.c.flow_id.is_not(None),
        *lane.shown(connection, [task.c.lane]),
    ).where(or_(task.c.flow_id.is_(None), task.c.flow_id == task.c.id))
    if number is not None:
        query = query.where(task.c.id > number)
    rows = connection.execute(query.order_by(task.c.id).limit(limit))
    return [Seen(row[0], row[1], row[2], Status(row[3]), *row[4:]) for row in rows]


def mark(connection: Connection, rows: Sequence[Seen], *, now: int, soon: int) -> set[int]:
    """Mark the rows that are still free, so that no worker takes them; the ids of those.

    The owner of a bucket may run a row that is due by `soon` with nothing written, if it serves the
    kind. A bucket without an owner has none until the transaction ends. An offered row is free.
    """
    due = [row for row in rows if row.status is Status.WAITING and row.is_due(soon)]
    unread = _unread(connection, [row for row in due if row.batch is None])
    offered = fetch_store.withdraw_offers(
        connection, [row.id for row in due if row.batch == OFFERED]
    )
    later = [row.id for row in rows if row.status is Status.WAITING and not row.is_due(soon)]
    ended = [row.id for row in rows if row.status in ENDED]
    _mark_abandoned(connection, [row.id for row in rows if row.is_abandoned], now=now)
    unclaimed = task.c.batch.is_(None)
    is_later = or_(task.c.due_at.is_(None), task.c.due_at > soon)
    for ids, is_free in (
        (unread, and_(task.c.status == Status.WAITING, unclaimed)),
        (offered, and_(task.c.status == Status.WAITING, task.c.batch == OFFERED)),
        (later, and_(task.c.status == Status.WAITING, unclaimed, is_later)),
        (ended, and_(task.c.status.in_(ENDED), unclaimed)),
    ):
        if ids:
            free = update(task).where(task.c.id.in_(ids), is_free)
            connection.execute(free.values(batch=LEAVING))
    all_ids = [row.id for row in rows]
    marked = select(task.c.id).where(task.c.id.in_(all_ids), task.c.batch == LEAVING)
    return set(connection.scalars(marked))


def _mark_abandoned(connection: Connection, ids: Collection[int], *, now: int) -> None:
    if ids:
        connection.execute(
            update(task)
            .where(task.c.id.in_(ids), task.c.status == Status.RUNNING, task.c.batch.is_(None))
            .values(
                status=Status.WAITING,
                batch=LEAVING,
                worker=None,
                due_at=now,
                lost=task.c.lost + 1,
                lost_in_a_row=task.c.lost_in_a_row + 1,
                **lane.holding(connection),
            )
        )


def _unread(connection: Connection, due: Sequence[Seen]) -> list[int]:
    """The due rows that no owner of their bucket reads until the transaction ends."""
    if not due:
        return []
    owners = ring_store.kept_owners(connection, {owned_with(row.bucket) for row in due})
    served = {view.id: view.kinds for view in ring_store.workers(connection)}

    def is_unread(row: Seen) -> bool:
        owner = owners.get(owned_with(row.bucket))
        return owner is None or (owner in served and row.kind not in served[owner])

    return [row.id for row in due if is_unread(row)]


def unmark(connection: Connection, ids: Collection[int]) -> None:
    """Let rows stay."""
    connection.execute(
        update(task).where(task.c.id.in_(ids), task.c.batch == LEAVING).values(batch=None)
    )


def leaving(connection: Connection, ids: Collection[int]) -> dict[int, Values]:
    """All columns of the rows that are still marked, by id."""
    rows = connection.execute(
        select(*lane.all_columns(connection))
        .where(task.c.id.in_(ids), task.c.batch == LEAVING)
        .order_by(task.c.id)
    ).mappings()
    return {row["id"]: dict(row) for row in rows}


def put(
    connection: Connection,
    dialect: Dialect,
    rows: Sequence[Values],
    *,
    faces: Faces,
    kinds: set[str],
) -> dict[int, str]:
    """Write copies that wait until their rows have left; the ids that were refused, and why.

    `kinds` are the expendable kinds in the source.

    Copies of an earlier attempt are replaced. "here": a row with that id has arrived already.
    "taken": another row has the key.
    """
    ids = [row["id"] for row in rows]
    drop(connection, ids, faces=faces)
    dialect.ensure_all(connection, task, [{**row, "batch": COMING} for row in rows])
    found = dict(
        map(tuple, connection.execute(select(task.c.id, task.c.batch).where(task.c.id.in_(ids))))
    )
    written = [row for row in rows if found.get(row["id"]) == COMING]
    _count(connection, faces, written, +1, kinds)
    return {
        number: "here" if number in found else "taken"
        for number in ids
        if found.get(number) != COMING
    }


def release(connection: Connection, copies: Mapping[int, Values], *, faces: Faces) -> set[int]:
    """Delete the rows that have not changed since they were copied; their ids."""
    leaving = (
        select(*lane.all_columns(connection))
        .where(task.c.id.in_(copies), task.c.batch == LEAVING)
        .order_by(task.c.id)
        .with_for_update()
    )
    rows = connection.execute(force_index(leaving, task, "primary")).mappings()
    same = {row["id"] for row in rows if dict(row) == copies[row["id"]]}
    _delete(connection, [copies[number] for number in same], batch=LEAVING, faces=faces)
    return same


def arrive(
    connection: Connection, ids: Collection[int], stay: Collection[int], *, faces: Faces
) -> None:
    """Let the copies of rows that left run, and delete the copies of rows that stay."""
    drop(connection, stay, faces=faces)
    connection.execute(
        update(task).where(task.c.id.in_(ids), task.c.batch == COMING).values(batch=None)
    )


def drop(connection: Connection, ids: Collection[int], *, faces: Faces) -> None:
    """Delete copies whose rows have not left."""
    rows = connection.execute(
        select(task.c.id, task.c.kind, task.c.task_key, task.c.flow_id)
        .where(task.c.id.in_(ids), task.c.batch == COMING)
        .order_by(task.c.id)
    ).mappings()
    _delete(connection, [dict(row) for row in rows], batch=COMING, faces=faces)


def _delete(connection: Connection, rows: Sequence[Values], *, batch: int, faces: Faces) -> None:
    if not rows:
        return
    numbers = [row["id"] for row in rows]
    _drop_along(connection, faces, numbers)
    for along in faces.alongs:
        for page in along.inside(connection, rows) if along.inside else ():
            _drop_along(connection, faces, page)
            delete_by_id(connection, task, page)
    connection.execute(delete(task).where(task.c.id.in_(numbers), task.c.batch == batch))
    _count(connection, faces, rows, -1, expendable(connection, faces))


def _drop_along(connection: Connection, faces: Faces, ids: Sequence[int]) -> None:
    for along in faces.alongs:
        if along.drop and ids:
            along.drop(connection, ids)


def put_along(
    connection: Connection,
    dialect: Dialect,
    faces: Faces,
    *,
    read: Read,
    rows: Sequence[Values],
    ids: Mapping[int, int],
) -> None:
    """Copy what belongs to `rows` from another shard with `read`; `ids` maps to their ids here."""

    def copy(numbers: Sequence[int]) -> None:
        for along in faces.alongs:
            for table, found in along.copy(read, numbers, ids) if along.copy and numbers else ():
                if found:
                    dialect.ensure_all(connection, table, found)

    copy([row["id"] for row in rows])
    for along in faces.alongs:
        for page in along.nodes(read, rows) if along.nodes else ():
            dialect.ensure_all(connection, task, page)
            copy([row["id"] for row in page])


def expendable(connection: Connection, faces: Faces) -> set[str]:
    """The kinds that lose nothing when a copy cannot be written because the key is there."""
    found = [along.expendable(connection) for along in faces.alongs if along.expendable]
    return set().union(*found)


def _count(
    connection: Connection, faces: Faces, rows: Sequence[Values], sign: int, kinds: Collection[str]
) -> None:
    for along in faces.alongs:
        if along.counted and rows:
            along.counted(connection, rows, sign, kinds)

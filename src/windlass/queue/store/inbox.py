"""The inbox: ids of messages that were received, and messages that are tried again or failed.

A message is remembered in the transaction of its effects, or of the row that keeps it for another
try. From then on the broker need not keep it, and a redelivery is recognised.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update

from windlass.core.face import Tidying
from windlass.database.database import has_tables
from windlass.database.schema import inbox, message
from windlass.queue.model.message import CUT_CODINGS, FailedMessage, Stored, hash_of
from windlass.value.bucket import bucket_of
from windlass.value.status import Status

TABLES = "0012"
AT_ONCE = 500


class Known(Exception):
    """Another delivery of a message was handled meanwhile."""


class KeptRow(NamedTuple):
    """A message that is kept for another try."""

    id: int
    message_id: str
    tries: int
    # How many times in a row a worker died with it. While it is claimed, this claim counts, too.
    lost: int
    lane: str | None
    stored: Stored
    content_type: str
    headers: str
    due_at: int
    received_at: int


class NewKept(NamedTuple):
    """A message to keep: until its next try at `due_at`, or as failed without one."""

    id: int
    message_id: str
    tries: int
    due_at: int | None
    lane: str | None
    stored: Stored
    content_type: str
    headers: str
    error: str | None


def known(connection: Connection, kind: str, ids: Collection[str]) -> set[str]:
    """Those of the ids that were received before."""
    hashes = {hash_of(each): each for each in ids}
    found: set[str] = set()
    listed = list(hashes)
    for begin in range(0, len(listed), AT_ONCE):
        some = listed[begin : begin + AT_ONCE]
        query = select(inbox.c.message_hash).where(
            inbox.c.kind == kind, inbox.c.message_hash.in_(some)
        )
        found.update(connection.scalars(query))
    return {hashes[each] for each in found}


def has_some(connection: Connection, kind: str) -> bool:
    """Whether messages of a kind are remembered or kept here."""
    for table in (inbox, message):
        query = select(table.c.kind).where(table.c.kind == kind).limit(1)
        if connection.scalar(query) is not None:
            return True
    return False


def remember(connection: Connection, kind: str, ids: Sequence[str], *, until: int) -> None:
    """Remember messages until then. A duplicate key is an error: another delivery was first."""
    rows = [{"kind": kind, "message_hash": hash_of(each), "forget_at": until} for each in ids]
    # In one order, so that two transactions with the same messages cannot lock each other out.
    rows.sort(key=lambda row: str(row["message_hash"]))
    for begin in range(0, len(rows), AT_ONCE):
        connection.execute(insert(inbox), rows[begin : begin + AT_ONCE])


def keep(connection: Connection, kind: str, rows: Sequence[NewKept], *, now: int) -> None:
    """Keep messages for another try, or as failed."""
    connection.execute(insert(message), [_values(kind, row, now) for row in rows])


def take(connection: Connection, row: KeptRow) -> bool:
    """Delete a kept message whose effects are in this transaction; False if it has changed."""
    return bool(connection.execute(delete(message).where(*_same(row))).rowcount)


def are_kept(connection: Connection, ids: Collection[int]) -> bool:
    """Whether one of these messages is kept."""
    if not ids:
        return False
    return connection.scalar(select(message.c.id).where(message.c.id.in_(ids)).limit(1)) is not None


def claim(connection: Connection, row: KeptRow, *, until: int) -> KeptRow | None:
    """Count a try of a kept message before it runs; it is due again at `until` if nobody reports.

    None if it has changed. It counts as lost until its end is reported: so a message that kills its
    worker is known.
    """
    made = row._replace(tries=row.tries + 1, lost=row.lost + 1, due_at=until)
    values = {"tries": made.tries, "lost": made.lost, "due_at": made.due_at}
    changed = connection.execute(update(message).where(*_same(row)).values(values))
    return made if changed.rowcount else None


def renew(connection: Connection, rows: Sequence[KeptRow], *, until: int) -> None:
    """Kept messages still run: they are due again at `until` if nobody reports."""
    for row in rows:
        connection.execute(update(message).where(*_same(row)).values(due_at=until))


def put_off(
    connection: Connection,
    row: KeptRow,
    *,
    tries: int,
    lost: int,
    due_at: int | None,
    error: str | None,
    now: int,
) -> bool:
    """Note a try of a kept message that failed: with another try at `due_at`, or for good."""
    values: dict[str, Any] = {"tries": tries, "lost": lost, "due_at": due_at}
    if error is not None:
        values["error"] = error
    values["status"] = Status.FAILED if due_at is None else Status.WAITING
    values["failed_at"] = now if due_at is None else None
    changed = update(message).where(*_same(row)).values(values)
    return bool(connection.execute(changed).rowcount)


def due(
    connection: Connection,
    kind: str,
    *,
    now: int,
    buckets: Sequence[range],
    limit: int,
) -> list[KeptRow]:
    """Kept messages whose next try is due, oldest first; of each lane only the first."""
    earlier = message.alias("earlier")
    is_first = ~(
        select(earlier.c.id)
        .where(
            earlier.c.kind == message.c.kind,
            earlier.c.lane == message.c.lane,
            earlier.c.id < message.c.id,
            earlier.c.status == Status.WAITING,
        )
        .exists()
    )
    found: list[KeptRow] = []
    for run in buckets:
        query = (
            select(*KEPT)
            .where(
                message.c.kind == kind,
                message.c.status == Status.WAITING,
                message.c.due_at <= now,
                message.c.bucket >= run.start,
                message.c.bucket < run.stop,
                is_first,
            )
            .order_by(message.c.due_at)
            .limit(limit)
        )
        found += [_kept(row) for row in connection.execute(query)]
    return found[:limit]


def waiting_lanes(connection: Connection, kind: str, lanes: Collection[str]) -> set[str]:
    """Those of the lanes that have a message which is tried again."""
    query = (
        select(message.c.lane)
        .where(
            message.c.kind == kind,
            message.c.lane.in_(sorted(lanes)),
            message.c.status == Status.WAITING,
        )
        .distinct()
    )
    return set(connection.scalars(query))


def listing(
    connection: Connection,
    *,
    queues: Mapping[str, str],
    status: Status | None = Status.FAILED,
    limit: int = 100,
    below: int | None = None,
) -> list[FailedMessage]:
    """Kept messages of these kinds, newest first; `queues` has the queue of each kind."""
    query = select(message).where(message.c.kind.in_(sorted(queues)))
    if status is not None:
        query = query.where(message.c.status == status)
    if below is not None:
        query = query.where(message.c.id < below)
    rows = connection.execute(query.order_by(message.c.id.desc()).limit(limit))
    return [_shown(row, queues[row.kind]) for row in rows]


def get(connection: Connection, number: int, queues: Mapping[str, str]) -> FailedMessage | None:
    row = connection.execute(select(message).where(message.c.id == number)).first()
    return None if row is None else _shown(row, queues.get(row.kind, ""))


def counts(connection: Connection, kind: str, *, most: int) -> tuple[int, int]:
    """How many messages of a kind wait for another try, and how many failed; up to `most`."""
    found = []
    for status in (Status.WAITING, Status.FAILED):
        few = (
            select(message.c.id)
            .where(message.c.kind == kind, message.c.status == status)
            .limit(most)
            .subquery()
        )
        found.append(connection.execute(select(func.count()).select_from(few)).scalar_one())
    return found[0], found[1]


def retry(connection: Connection, kind: str, ids: Collection[int] | None, *, now: int) -> int:
    """Try failed messages again from now on, as if they were new; how many.

    Not those whose body is not whole: they cannot be handled.
    """
    changed = (
        update(message)
        .where(
            message.c.kind == kind,
            message.c.status == Status.FAILED,
            message.c.coding.not_in(CUT_CODINGS),
        )
        .values(status=Status.WAITING, due_at=now, tries=0, lost=0, failed_at=None)
    )
    if ids is not None:
        changed = changed.where(message.c.id.in_(sorted(ids)))
    return connection.execute(changed).rowcount


def cut(connection: Connection, kind: str, ids: Collection[int]) -> list[int]:
    """Those of these messages whose body is not whole."""
    query = select(message.c.id).where(
        message.c.kind == kind,
        message.c.id.in_(sorted(ids)),
        message.c.coding.in_(CUT_CODINGS),
    )
    return sorted(connection.scalars(query))


def drop(connection: Connection, kind: str, ids: Collection[int] | None) -> int:
    """Delete failed messages; how many. Their ids stay remembered."""
    gone = delete(message).where(message.c.kind == kind, message.c.status == Status.FAILED)
    if ids is not None:
        gone = gone.where(message.c.id.in_(sorted(ids)))
    return connection.execute(gone).rowcount


def prune(tidying: Tidying) -> int:
    """Forget the ids of messages that were remembered for long enough; how many."""
    connection = tidying.connection
    if not has_tables(connection, TABLES):
        return 0
    query = select(inbox.c.kind, inbox.c.message_hash).where(inbox.c.forget_at < tidying.now)
    old = connection.execute(query.order_by(inbox.c.forget_at).limit(tidying.limit)).fetchall()
    by_kind: dict[str, list[str]] = {}
    for row in old:
        by_kind.setdefault(row.kind, []).append(row.message_hash)
    for kind, hashes in by_kind.items():
        for begin in range(0, len(hashes), AT_ONCE):
            some = inbox.c.message_hash.in_(sorted(hashes[begin : begin + AT_ONCE]))
            connection.execute(delete(inbox).where(inbox.c.kind == kind, some))
    return len(old)


KEPT = [
    message.c[name]
    for name in (
        *("id", "message_id", "tries", "lost", "lane", "coding", "body", "content_type", "headers"),
        *("due_at", "received_at"),
    )
]


def _same(row: KeptRow) -> tuple[ColumnElement[bool], ...]:
    """The row has not been claimed or reported since. Each claim counts a try."""
    return (
        message.c.id == row.id,
        message.c.status == Status.WAITING,
        message.c.tries == row.tries,
    )


def _kept(row: Row[Any]) -> KeptRow:
    return KeptRow(
        row.id,
        row.message_id,
        row.tries,
        row.lost,
        row.lane,
        Stored(row.coding, row.body),
        row.content_type,
        row.headers,
        row.due_at,
        row.received_at,
    )


def _values(kind: str, row: NewKept, now: int) -> dict[str, Any]:
    return {
        "id": row.id,
        "kind": kind,
        "message_id": row.message_id,
        "bucket": bucket_of(row.lane or row.message_id),
        "status": Status.FAILED if row.due_at is None else Status.WAITING,
        "due_at": row.due_at,
        "lane": row.lane,
        "tries": row.tries,
        "received_at": now,
        "failed_at": now if row.due_at is None else None,
        "coding": row.stored.coding,
        "content_type": row.content_type,
        "headers": row.headers,
        "body": row.stored.text,
        "error": row.error,
    }


def _shown(row: Row[Any], queue: str) -> FailedMessage:
    stored = Stored(row.coding, row.body)
    return FailedMessage(
        id=row.id,
        kind=row.kind,
        queue=queue,
        message_id=row.message_id,
        status=Status(row.status),
        tries=row.tries,
        received_at=row.received_at,
        due_at=row.due_at,
        failed_at=row.failed_at,
        lane=row.lane,
        content_type=row.content_type,
        headers=row.headers,
        body=stored.text,
        is_binary=stored.is_binary,
        error=row.error,
        is_cut=stored.is_cut,
    )

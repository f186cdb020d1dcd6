"""The outbox: messages that wait to be sent, in the order of their ids, and their queues.

A message is a row in the transaction of its publisher. The owner of its bucket sends it; all
messages with one key are in one bucket. A sent message is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    delete,
    false,
    func,
    or_,
    select,
    text,
    update,
)

from windlass.database.dialect import PerDialect
from windlass.database.dialect.base import Dialect, Executor
from windlass.database.dialect.by_id import delete_by_id
from windlass.database.schema import bucket, outbox, queue
from windlass.queue.model.message import FailedMessage, Outgoing, Stored
from windlass.value.status import Status

COLUMNS = (
    *("id", "queue_id", "bucket", "status", "message_id", "message_key", "created_at"),
    *("coding", "content_type", "headers", "body"),
)
AT_ONCE = 500
# No statement is much larger: servers refuse what is larger than a packet.
STATEMENT_BYTES = 2 * 1024 * 1024

FIND = text("select id from windlass_queue where name = :name and address = :address")
ENSURE = text(
    "insert into windlass_queue (id, name, address, created_at) "
    "select :id, :name, :address, :now "
    "where not exists (select 1 from windlass_queue where name = :name and address = :address)"
)

# All rows of a call in one statement, on whatever connection the caller has.
_FIELDS = ", ".join(COLUMNS)
INSERT = PerDialect(
    sqlite=text(
        f"insert into windlass_outbox ({_FIELDS}) select "
        + ", ".join(f"json_extract(value, '$[{place}]')" for place in range(len(COLUMNS)))
        + " from json_each(:rows)"
    ),
    postgresql=text(
        f"insert into windlass_outbox ({_FIELDS}) select "
        "cast(r->>0 as bigint), cast(r->>1 as bigint), cast(r->>2 as smallint), "
        "cast(r->>3 as smallint), r->>4, r->>5, cast(r->>6 as bigint), r->>7, r->>8, "
        "cast(r->>9 as json), r->>10 from json_array_elements(cast(:rows as json)) as r"
    ),
    mysql=text(
        f"insert into windlass_outbox ({_FIELDS}) select "
        "a, b, c, d, e, f, g, h, i, j, k from json_table(:rows, '$[*]' columns ("
        "a bigint path '$[0]', b bigint path '$[1]', c smallint path '$[2]', "
        "d smallint path '$[3]', e varchar(255) path '$[4]', f varchar(255) path '$[5]', "
        "g bigint path '$[6]', h varchar(10) path '$[7]', i varchar(100) path '$[8]', "
        "j mediumtext path '$[9]', k mediumtext path '$[10]')) as r"
    ),
)


class QueueRow(NamedTuple):
    """A queue that is known in the database."""

    id: int
    name: str
    address: str
    created_at: int
    answered_at: int | None
    failed_at: int | None
    error: str | None
    holder: int | None


class OutboxPlace(NamedTuple):
    """A place in the order in which messages are read."""

    bucket: int = 0
    id: int = 0


class OutboxRow(NamedTuple):
    """A message that waits to be sent."""

    id: int
    bucket: int
    key: str | None
    message: Outgoing


class OutboxBacklog(NamedTuple):
    """What waits for one queue, counted up to a limit, since when, and what failed."""

    waiting: int
    oldest_at: int | None
    failed: int


def ensure_queue(
    connection: Connection, dialect: Dialect, number: int, *, name: str, address: str, now: int
) -> int:
    """The id of a queue, which is written unless it is there."""
    query = select(queue.c.id).where(queue.c.name == name, queue.c.address == address)
    found = connection.scalar(query)
    if found is not None:
        return int(found)
    dialect.ensure(connection, queue, id=number, name=name, address=address, created_at=now)
    return int(connection.execute(query).scalar_one())


def ensure_queue_inside(
    executor: Executor, number: int, *, name: str, address: str, now: int
) -> int:
    """`ensure_queue` on the connection of a caller, in its transaction."""
    given = {"id": number, "name": name, "address": address, "now": now}
    executor.execute(ENSURE, given)
    return int(executor.execute(FIND, {"name": name, "address": address}).fetchone()[0])


def queues(connection: Connection) -> list[QueueRow]:
    """All queues, by name."""
    columns = [queue.c[name] for name in QueueRow._fields]
    rows = connection.execute(select(*columns).order_by(queue.c.name, queue.c.address))
    return [QueueRow(*row) for row in rows]


def insert(executor: Executor, dialect: Dialect, rows: Sequence[Sequence[object]]) -> None:
    """Write messages: the COLUMNS of each."""
    part: list[str] = []
    size = 0
    for row in rows:
        encoded = msgspec.json.encode(row).decode()
        if part and size + len(encoded) > STATEMENT_BYTES:
            _insert(executor, dialect, part)
            part, size = [], 0
        part.append(encoded)
        size += len(encoded)
    _insert(executor, dialect, part)


def _insert(executor: Executor, dialect: Dialect, rows: Sequence[str]) -> None:
    executor.execute(INSERT.of(dialect), {"rows": f"[{','.join(rows)}]"})


def waiting(connection: Connection, *, buckets: Sequence[range]) -> set[int]:
    """The ids of the queues for which messages wait in these buckets."""
    # In the order of the index: without one, PostgreSQL would look for a first row in all of them.
    firsts = [
        select(outbox.c.id)
        .where(*_of(queue.c.id, run))
        .order_by(outbox.c.queue_id, outbox.c.status, outbox.c.bucket, outbox.c.id)
        .limit(1)
        .scalar_subquery()
        for run in buckets
    ]
    query = select(queue.c.id).where(or_(false(), *(first.is_not(None) for first in firsts)))
    return set(connection.scalars(query))


def read(
    connection: Connection,
    queue_id: int,
    *,
    buckets: Sequence[range],
    after: OutboxPlace,
    limit: int,
) -> list[OutboxRow]:
    """The next messages of a queue in these buckets, behind `after`, by bucket and id.

    So the messages of a key come in order, and a key with many messages stops no other for long.
    """
    columns = (
        *(outbox.c.id, outbox.c.bucket, outbox.c.message_key, outbox.c.message_id),
        *(outbox.c.coding, outbox.c.content_type, outbox.c.headers, outbox.c.body),
    )
    found: list[OutboxRow] = []
    for run in sorted(buckets, key=lambda run: run.start):
        if run.stop <= after.bucket or len(found) >= limit:
            continue
        is_behind = or_(outbox.c.bucket > after.bucket, outbox.c.id > after.id)
        query = (
            select(*columns)
            .where(*_of(queue_id, range(max(run.start, after.bucket), run.stop)), is_behind)
            .order_by(outbox.c.bucket, outbox.c.id)
            .limit(limit - len(found))
        )
        found += [_row(row) for row in connection.execute(query)]
    return found


def sent(connection: Connection, ids: Collection[int]) -> None:
    """Delete messages that the broker has confirmed."""
    listed = sorted(ids)
    for begin in range(0, len(listed), AT_ONCE):
        delete_by_id(connection, outbox, listed[begin : begin + AT_ONCE])


def fail(connection: Connection, number: int, *, error: str, now: int) -> None:
    """Keep a message that the broker will never take, as failed."""
    connection.execute(
        update(outbox)
        .where(outbox.c.id == number)
        .values(status=Status.FAILED, error=error, failed_at=now)
    )


def note_answer(connection: Connection, queue_id: int, *, now: int) -> None:
    connection.execute(
        update(queue).where(queue.c.id == queue_id).values(answered_at=now, error=None)
    )


def note_error(connection: Connection, queue_id: int, *, error: str, now: int) -> None:
    connection.execute(
        update(queue).where(queue.c.id == queue_id).values(failed_at=now, error=error[:2_000])
    )


def backlog(connection: Connection, queue_id: int, *, most: int) -> OutboxBacklog:
    """What waits for a queue."""
    counted = []
    for status in (Status.WAITING, Status.FAILED):
        few = (
            select(outbox.c.id)
            .where(outbox.c.queue_id == queue_id, outbox.c.status == status)
            .limit(most)
            .subquery()
        )
        counted.append(connection.execute(select(func.count()).select_from(few)).scalar_one())
    return OutboxBacklog(
        counted[0], oldest(connection, queue_id) if counted[0] else None, counted[1]
    )


def oldest(connection: Connection, queue_id: int) -> int | None:
    """When the oldest message that waits for a queue was published: the first of each bucket."""
    first = (
        select(outbox.c.created_at)
        .where(
            outbox.c.queue_id == queue_id,
            outbox.c.status == Status.WAITING,
            outbox.c.bucket == bucket.c.bucket,
        )
        .order_by(outbox.c.queue_id, outbox.c.status, outbox.c.bucket, outbox.c.id)
        .limit(1)
        .scalar_subquery()
    )
    firsts = select(first.label("created_at")).select_from(bucket).subquery()
    found = connection.scalar(select(func.min(firsts.c.created_at)))
    return None if found is None else int(found)


def retry(connection: Connection, queue_id: int, ids: Collection[int] | None) -> int:
    """Send failed messages again; how many."""
    changed = update(outbox).where(outbox.c.queue_id == queue_id, outbox.c.status == Status.FAILED)
    if ids is not None:
        changed = changed.where(outbox.c.id.in_(sorted(ids)))
    values = {"status": Status.WAITING, "error": None, "failed_at": None}
    return connection.execute(changed.values(values)).rowcount


def drop(connection: Connection, queue_id: int, ids: Collection[int] | None) -> int:
    """Delete failed messages; how many."""
    gone = delete(outbox).where(outbox.c.queue_id == queue_id, outbox.c.status == Status.FAILED)
    if ids is not None:
        gone = gone.where(outbox.c.id.in_(sorted(ids)))
    return connection.execute(gone).rowcount


def failed(connection: Connection, queue_id: int, name: str, *, limit: int) -> list[FailedMessage]:
    """Failed messages of a queue, newest first."""
    query = (
        select(outbox)
        .where(outbox.c.queue_id == queue_id, outbox.c.status == Status.FAILED)
        .order_by(outbox.c.id.desc())
        .limit(limit)
    )
    return [
        FailedMessage(
            id=row.id,
            kind="",
            queue=name,
            message_id=row.message_id,
            status=Status(row.status),
            tries=1,
            received_at=row.created_at,
            due_at=None,
            failed_at=row.failed_at,
            lane=row.message_key,
            content_type=row.content_type,
            headers=row.headers or "{}",
            body=row.body,
            is_binary=Stored(row.coding, row.body).is_binary,
            error=row.error,
        )
        for row in connection.execute(query)
    ]


def hold(connection: Connection, queue_id: int, *, worker: int) -> bool:
    """Let one worker receive for a kind with lanes; False if another has it."""
    is_free = queue.c.holder.is_(None) | (queue.c.holder == worker)
    changed = update(queue).where(queue.c.id == queue_id, is_free).values(holder=worker)
    return bool(connection.execute(changed).rowcount)


def let_go(connection: Connection, worker: int) -> int:
    """A worker leaves, or has left: others may receive in its place."""
    changed = update(queue).where(queue.c.holder == worker).values(holder=None)
    return connection.execute(changed).rowcount


def _of(queue_id: int | ColumnElement[int], run: range) -> tuple[Any, ...]:
    return (
        outbox.c.queue_id == queue_id,
        outbox.c.status == Status.WAITING,
        outbox.c.bucket >= run.start,
        outbox.c.bucket < run.stop,
    )


def _row(row: Any) -> OutboxRow:
    headers = {} if row.headers is None else msgspec.json.decode(row.headers)
    message = Outgoing(
        row.message_id,
        Stored(row.coding, row.body).body,
        content_type=row.content_type,
        headers=headers,
    )
    return OutboxRow(row.id, row.bucket, row.message_key, message)

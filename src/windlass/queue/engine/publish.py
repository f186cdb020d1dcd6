"""Publishing: a message becomes a row of the outbox, in the caller's transaction or in its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.route import Router
from windlass.core.shard.shard import Shard
from windlass.database.connection import Connection, Executor, joined
from windlass.database.joined import joined_transaction
from windlass.errors import BadInput, BadKey, DatabaseUnavailable
from windlass.queue.model.message import (
    BYTES,
    JSON,
    LONGEST_CONTENT_TYPE,
    LONGEST_ID,
    check_headers,
    is_name,
    plain_headers,
    stored,
)
from windlass.queue.model.queue import Queue
from windlass.queue.store import outbox
from windlass.value.bucket import bucket_of
from windlass.value.payload import encode_value
from windlass.value.status import Status

TABLES = "0011"
# By this name, keys find their shard.
OUTBOX = "windlass:outbox"
LONGEST_KEY = 255


@dataclass(frozen=True)
class NewMessage:
    """A message to publish, checked."""

    id: str
    key: str | None
    body: bytes
    content_type: str
    headers: str | None


def new_message(
    queue: Queue,
    body: object,
    *,
    key: str | None,
    id: str | None,
    headers: Mapping[str, Any] | None,
    content_type: str | None,
    largest: int,
) -> NewMessage:
    """A message; an error names what is wrong with it."""
    what = f"queue {queue.name!r}"
    if key is not None and not is_name(key, LONGEST_KEY):
        raise BadKey(
            f"{what}: key={key!r:.80} is not a text of 1 to {LONGEST_KEY} printable characters"
        )
    if id is not None and not (is_name(id, LONGEST_ID) and len(id.encode()) <= LONGEST_ID):
        raise BadInput(
            f"{what}: id={id!r:.80} is not a printable text of 1 to {LONGEST_ID} bytes in UTF-8"
        )
    if content_type is not None and not is_name(content_type, LONGEST_CONTENT_TYPE):
        raise BadInput(
            f"{what}: content_type={content_type!r:.80} is not a printable text of 1 to "
            f"{LONGEST_CONTENT_TYPE} characters"
        )
    if headers is not None:
        check_headers(what, headers)
    if isinstance(body, bytes | bytearray):
        encoded, kind = bytes(body), BYTES
    else:
        try:
            encoded, kind = encode_value(body), JSON
        except (TypeError, ValueError, OverflowError, RecursionError) as problem:
            raise BadInput(
                f"{what}: the body cannot be written as JSON ({problem}); give plain values, or "
                "bytes"
            ) from None
    if len(encoded) > largest:
        raise BadInput(
            f"{what}: the body is {len(encoded):,} bytes, over the limit of {largest:,}; store the "
            "data and send its key, or raise max_payload"
        )
    return NewMessage(
        id or str(uuid4()),
        key,
        encoded,
        content_type or kind,
        plain_headers(headers) if headers else None,
    )


class Publisher:
    """Writes messages into the outbox of the right shard."""

    def __init__(self, fleet: Fleet, router: Router) -> None:
        self._fleet = fleet
        self._router = router
        # The ids of queues by shard; rows of queues are never deleted.
        self._numbers: dict[tuple[Shard, Queue], int] = {}

    def prepare(self, queue: Queue) -> None:
        """Write the row of a queue, where a caller's transaction does not write it."""
        single = self._fleet.single
        if single is not None and not single.database.dialect.numbers_join:
            self._number(single, queue)

    def publish(self, queue: Queue, messages: Sequence[NewMessage], *, conn: object = None) -> None:
        """Write messages for a queue: all or none, in each shard that they belong to."""
        if not messages:
            return
        if conn is not None:
            shard = self._fleet.single or self._router.shard_of(conn)
            dialect = shard.database.dialect
            shard.database.schema.need(TABLES, "app.publish")
            number = None if dialect.numbers_join else self._number(shard, queue)
            with joined(conn, shard.database.engine, dialect) as executor:
                if number is None:
                    # No other transaction can write before the caller's has ended.
                    number = outbox.ensure_queue_inside(
                        executor,
                        shard.numbers.take(inside=executor)[0],
                        name=queue.name,
                        address=queue.address,
                        now=shard.clock.now(),
                    )
                self._write(shard, executor, number, messages)
            shard.bell.ring_here()
            return
        for shard, some in self._homes(messages):
            number = self._number(shard, queue)
            shard.database.write(self._work(shard, number, some))
            shard.bell.ring_here()

    def _work(
        self, shard: Shard, number: int, messages: Sequence[NewMessage]
    ) -> Callable[[Connection], None]:
        numbers = None
        if not shard.database.dialect.numbers_join:
            # With the same numbers, a repeat after a lost answer changes nothing.
            numbers = _numbers(shard, messages)
        return lambda connection: self._write(shard, connection, number, messages, numbers)

    def _write(
        self,
        shard: Shard,
        executor: Executor,
        number: int,
        messages: Sequence[NewMessage],
        numbers: Sequence[int] | None = None,
    ) -> None:
        if numbers is None:
            numbers = _numbers(shard, messages, executor)
        now = shard.clock.now()
        rows = []
        for row_id, message in zip(numbers, messages, strict=True):
            kept = stored(message.body)
            rows.append(
                (
                    row_id,
                    number,
                    bucket_of(message.key or message.id),
                    int(Status.WAITING),
                    message.id,
                    message.key,
                    now,
                    kept.coding,
                    message.content_type,
                    message.headers,
                    kept.text,
                )
            )
        outbox.insert(executor, shard.database.dialect, rows)

    def _number(self, shard: Shard, queue: Queue) -> int:
        """The id of the queue in a shard, written in a transaction of its own."""
        shard.database.schema.need(TABLES, "app.publish")
        found = self._numbers.get((shard, queue))
        if found is not None:
            return found
        database = shard.database
        inside = joined_transaction(database)
        number = shard.numbers.take()[0] if not database.dialect.numbers_join else None

        def work(connection: Connection) -> int:
            return outbox.ensure_queue(
                connection,
                database.dialect,
                number or shard.numbers.take(inside=connection)[0],
                name=queue.name,
                address=queue.address,
                now=shard.clock.now(),
            )

        made = database.write(work)
        if inside is None:
            # Otherwise the caller may still roll back.
            self._numbers[shard, queue] = made
        return made

    def _homes(self, messages: Sequence[NewMessage]) -> list[tuple[Shard, list[NewMessage]]]:
        single = self._fleet.single
        if single is not None:
            return [(single, list(messages))]
        groups: dict[Shard, list[NewMessage]] = {}
        anywhere = self._anywhere()
        for message in messages:
            shard = anywhere
            if message.key is not None:
                shard = self._fleet.home(OUTBOX, message.key)
            groups.setdefault(shard, []).append(message)
        return list(groups.items())

    def _anywhere(self) -> Shard:
        """A shard for messages without a key: that of the message that is handled, or any."""
        for shard in self._fleet.shards:
            if joined_transaction(shard.database) is not None:
                return shard
        for shard in self._fleet.taking():
            return shard
        names = tuple(shard.name for shard in self._fleet.shards)
        raise DatabaseUnavailable("no shard takes a message now", missing=names)


def _numbers(
    shard: Shard, messages: Sequence[NewMessage], inside: Executor | None = None
) -> list[int]:
    """Ids for messages. Those with a key are sent in the order of their ids."""
    has_key = any(message.key is not None for message in messages)
    return shard.numbers.take(len(messages), inside=inside, newest=has_key)

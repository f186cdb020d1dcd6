"""A broker of one's own: a log in a file, which is read by offsets, as Kafka's are.

Readers remember the offset below which everything was acknowledged. Nothing is ever deleted.
"""

import json
import sqlite3
import time
from contextlib import closing
from urllib.parse import urlsplit

from windlass import BrokerUnavailable
from windlass.queue import Broker, Delivered, Outgoing, Queue, Sent, Subscription

TABLES = """
create table if not exists log (queue text, place integer, id text, body blob, properties text,
    primary key (queue, place));
create table if not exists reader (queue text primary key, done integer, seen integer);
"""
ENTRIES = "select place, id, body, properties from log where queue = ? and place > ? order by place"


class LogBroker(Broker):
    """The log in the file that the URL names."""

    def __init__(self, queue: Queue) -> None:
        self._path = urlsplit(queue.url).path
        self._address = queue.address

    def ask(self, *statements: tuple[str, tuple[object, ...]]) -> list[tuple[object, ...]]:
        """Run statements in one transaction; the rows of the last."""
        try:
            with closing(sqlite3.connect(self._path, timeout=10)) as log, log:
                log.executescript(TABLES)
                log.execute("begin immediate")
                for statement, values in statements:
                    found = log.execute(statement, values).fetchall()
        except sqlite3.OperationalError as problem:
            raise BrokerUnavailable(self._address, str(problem)) from None
        return found

    def declare(self, queue: Queue, *, lasting: bool = False) -> None:
        self.ask(("insert or ignore into reader values (?, 0, 0)", (queue.name,)))

    def publish(self, queue, messages, *, declare: bool = True) -> Sent:
        statement = (
            "insert into log select ?, coalesce(max(place), 0) + 1, ?, ?, ? from log "
            "where queue = ?"
        )
        self.ask(
            *(
                (statement, (queue.name, each.id, each.body, _properties(each), queue.name))
                for each in messages
            )
        )
        return Sent(set(range(len(messages))), {})

    def subscribe(self, queue: Queue, *, prefetch: int, alone: str | None = None) -> Subscription:
        return LogReader(self, queue, prefetch)

    def depth(self, queue: Queue) -> int:
        statement = "select count(*) from log where queue = ? and place > ?"
        return int(self.ask((statement, (queue.name, self.offset(queue, "seen"))))[0][0])

    def offset(self, queue: Queue, name: str) -> int:
        found = self.ask((f"select {name} from reader where queue = ?", (queue.name,)))
        return int(found[0][0]) if found else 0

    def keep_alive(self) -> None: ...

    def close(self) -> None: ...


class LogReader(Subscription):
    """Reads the log of one queue, from what was acknowledged."""

    def __init__(self, broker: LogBroker, queue: Queue, prefetch: int) -> None:
        self._broker, self._queue, self._prefetch = broker, queue, prefetch
        self._position: int | None = None
        self._open: set[int] = set()
        self._done: set[int] = set()

    def take(self, most: int, *, wait_seconds: float) -> list[Delivered]:
        if self._position is None:
            self._broker.declare(self._queue)
            self._position = self._broker.offset(self._queue, "done")
        room = min(most, self._prefetch - len(self._open))
        until = time.monotonic() + wait_seconds
        while True:
            seen = self._broker.offset(self._queue, "seen")
            rows = self._broker.ask((ENTRIES, (self._queue.name, self._position)))[: max(0, room)]
            left = until - time.monotonic()
            if rows or left <= 0:
                break
            time.sleep(min(0.02, left))
        if not rows:
            return []
        self._position = rows[-1][0]
        self._open |= {place for place, *_ in rows}
        mark = "update reader set seen = max(seen, ?) where queue = ?"
        self._broker.ask((mark, (self._position, self._queue.name)))
        return [self._delivered(row, is_again=row[0] <= seen) for row in rows]

    def acknowledge(self, deliveries) -> int:
        told = {each.tag for each in deliveries} & self._open
        self._open -= told
        self._done |= told
        done = min(self._open) - 1 if self._open else self._position or 0
        self._broker.ask(
            ("update reader set done = max(done, ?) where queue = ?", (done, self._queue.name))
        )
        return len(told)

    def reject(self, deliveries) -> int:
        return self.acknowledge(deliveries)

    def requeue(self, deliveries) -> int:
        """A log cannot take back one entry: read again from the first that is not done."""
        self.close()
        return len(deliveries)

    def close(self) -> None:
        self._position = None
        self._open.clear()

    def _delivered(self, row, *, is_again: bool) -> Delivered:
        place, name, body, text = row
        return Delivered(
            body=bytes(body),
            id=name or f"{self._queue.name}-{place}",
            content_encoding="",
            is_again=is_again,
            tag=place,
            epoch=0,
            **json.loads(text),
        )


def _properties(message: Outgoing) -> str:
    names = ("content_type", "headers", "reply_to", "correlation_id")
    return json.dumps({name: getattr(message, name) for name in names}, default=dict)

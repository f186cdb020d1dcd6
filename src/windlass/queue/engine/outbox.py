"""The loop that sends the outbox: each worker sends the messages in its own buckets.

Messages with one key are in one bucket, so one worker sends them, in the order of their ids. Of
each key one message at a time is under way: a broker may refuse one message and take the next. A
confirmed message is deleted, by a worker that is alive; one that was confirmed and not deleted is
sent again, under the same id. A broker that is away is tried again and again, with growing pauses;
messages wait in the database meanwhile, never in memory. Each queue has its own thread while there
is something to send, so that a broker that hangs stops no other queue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

from windlass import telemetry
from windlass.core.alert.model import Trouble
from windlass.core.alert.store import raise_alert
from windlass.core.face import FaceLoop, Workplace
from windlass.core.finish.store import MINUTE
from windlass.database.connection import Connection
from windlass.database.dialect.base import Count
from windlass.errors import BadQueue, BrokerRefused, BrokerUnavailable
from windlass.queue.broker import broker_of
from windlass.queue.engine.contact import Contact
from windlass.queue.model.message import Sent
from windlass.queue.model.queue import Queue, sent_kind
from windlass.queue.store import outbox
from windlass.queue.store.outbox import OutboxPlace, OutboxRow
from windlass.value.twin import in_background

TABLES = "0011"
LOOK_SECONDS = 0.1
IDLE_SECONDS = 0.5
TABLES_SECONDS = 5.0
# A page has at most this many messages, fewer if they are large: they are in memory.
AT_ONCE = 2_000
FIRST_PAGE = 200
PAGE_BYTES = 8_000_000
FEWEST = 10
UNKNOWN_SECONDS = 10.0
# A connection that nobody uses is closed: it would need heartbeats.
OPEN_SECONDS = 15.0
FAILED = "message failed"
UNCONFIRMED = (
    "messages were not confirmed in time; it may be short of memory or disk, and hold back senders"
)

Find = Callable[[str, str], Queue | None]


class OutboxPage(NamedTuple):
    """Messages that wait, and where the page after them begins: after the last, at the start."""

    rows: Sequence[OutboxRow]
    following: OutboxPlace


ReadPage = Callable[[Sequence[range], OutboxPlace, int], list[OutboxRow]]


class Outbox(FaceLoop):
    """Sends the messages of one worker's buckets in one database."""

    name = "outbox"

    def __init__(self, workplace: Workplace, find: Find) -> None:
        super().__init__()
        self._workplace = workplace
        self._site = workplace.site
        self._find = find
        self._senders: dict[int, QueueSender] = {}
        self._tell_unknown_at: dict[int, float] = {}
        self._wanted = 1
        self._empty_at = 0

    def tick(self) -> float:
        site = self._site
        if not site.database.schema.has(TABLES):
            self.is_idle = True
            return TABLES_SECONDS
        wanted = self._wanted
        share = self._workplace.ring.share
        waiting: set[int] = set()
        if share.runs and not self._workplace.in_flight.is_halted:
            waiting = site.database.read(
                lambda connection: outbox.waiting(connection, buckets=share.runs), tries=2
            )
        able = [each for number in waiting if (each := self._sender(number)) is not None]
        for each in able:
            each.go_on()
        for each in self._senders.values():
            each.rest()
        busy = [each for each in self._senders.values() if each.is_busy]
        self.done = sum(each.sent for each in self._senders.values())
        if not busy and not able:
            self._empty_at = wanted
        self.is_idle = self._empty_at == self._wanted
        if self._workplace.until_idle:
            problems = [each.contact.problem for each in able]
            self.trouble = next((each for each in problems if each is not None), None)
        if busy or able:
            return LOOK_SECONDS
        return IDLE_SECONDS

    def look_again(self) -> None:
        self._wanted += 1
        self.is_idle = False
        self.wake()

    def look_soon(self) -> None:
        self.wake()

    def close(self) -> None:
        for each in self._senders.values():
            each.stop()
        for each in self._senders.values():
            each.wait(5.0)

    def _sender(self, number: int) -> QueueSender | None:
        """What sends to a queue; None if this app does not know it."""
        found = self._senders.get(number)
        if found is not None:
            return found
        rows = self._site.database.read(outbox.queues)
        row = next((each for each in rows if each.id == number), None)
        queue = None if row is None else self._find(row.name, row.address)
        if row is None or queue is None:
            if row is not None:
                self._tell_unknown(number, row.name, row.address)
            return None
        try:
            sender = QueueSender(self._workplace, queue, number)
        except BadQueue as problem:
            # Its client is not installed here; other queues go on.
            self._tell_unable(number, row.name, row.address, str(problem))
            return None
        self._senders[number] = sender
        return sender

    def _tell_unknown(self, number: int, name: str, address: str) -> None:
        """Messages wait for a queue that this app does not name."""
        text = (
            f"this worker does not know its URL; make Queue({address!r}, {name!r}), with user and "
            "password, where the modules of the app are imported"
        )
        self._tell_unable(number, name, address, text)

    def _tell_unable(self, number: int, name: str, address: str, text: str) -> None:
        """Messages wait for a queue that this worker cannot send to: people must know."""
        now = time.monotonic()
        if now < self._tell_unknown_at.get(number, 0.0):
            return
        self._tell_unknown_at[number] = now + UNKNOWN_SECONDS
        moment = self._site.clock.now()
        self._site.database.write(
            lambda connection: outbox.note_error(connection, number, error=text, now=moment)
        )
        telemetry.emit("queue.failed", queue=name, broker=address, error=text, failures=1)


class QueueSender:
    """Sends to one queue, on a thread of its own while messages wait."""

    def __init__(self, workplace: Workplace, queue: Queue, number: int) -> None:
        self._workplace = workplace
        self._site = workplace.site
        self._queue = queue
        self._number = number
        self._broker = broker_of(queue)
        self.contact = Contact(workplace.site, queue)
        self.contact.number = number
        self._future: Future[None] | None = None
        self._is_stopping = False
        # Whether the queue is there, also if its broker is killed now.
        self._has_queue = False
        # When the connection is closed, if nothing is sent before.
        self._close_at: float | None = None
        self._pages = _Pages(self._read, name=f"outbox-{queue.name}")
        # The transaction that deletes what was confirmed last, while the next messages are sent.
        self._deleting: Future[None] | None = None
        self.sent = 0

    @property
    def is_busy(self) -> bool:
        return self._future is not None and not self._future.done()

    def go_on(self) -> None:
        """Send on a thread, unless one is at it, or the broker is left alone for a while."""
        if self.is_busy or self._is_stopping or self.contact.seconds_to_wait:
            return
        if self._future is not None and (problem := self._future.exception()) is not None:
            telemetry.emit("loop.failed", loop="outbox", error=str(problem)[:300], failures=1)
        self._close_at = time.monotonic() + OPEN_SECONDS
        self._future = in_background(self._send_all, f"outbox-{self._queue.name}")

    def rest(self) -> None:
        """Close the connection if nothing was sent for a while."""
        if self.is_busy or self._close_at is None or time.monotonic() < self._close_at:
            return
        self._close_at = None
        self._future = in_background(self._broker.close, f"outbox-{self._queue.name}")

    def stop(self) -> None:
        self._is_stopping = True

    def wait(self, seconds: float) -> None:
        if self._future is not None:
            try:
                self._future.exception(timeout=seconds)
            except TimeoutError:
                return
        self._broker.close()

    def _send_all(self) -> None:
        """Send until nothing waits, or something goes wrong."""
        try:
            self._send_pages()
        finally:
            self._pages.forget()
            self._settle()

    def _send_pages(self) -> None:
        after = OutboxPlace()
        while not self._is_stopping:
            share = self._workplace.ring.share
            if self._workplace.in_flight.is_halted or not share.runs:
                return
            page = self._pages.read(share.runs, after)
            if not page.rows and after == OutboxPlace():
                return
            if not self._send(sorted(page.rows, key=lambda row: row.id), worker=share.worker):
                return
            # At the end it starts over: a row may commit late, with an early id.
            after = page.following
            if after == OutboxPlace():
                self._settle()

    def _read(self, buckets: Sequence[range], after: OutboxPlace, limit: int) -> list[OutboxRow]:
        return self._site.database.read(
            lambda connection: outbox.read(
                connection, self._number, buckets=buckets, after=after, limit=limit
            )
        )

    def _send(self, rows: Sequence[OutboxRow], *, worker: int) -> bool:
        """Send rows, in waves with one message of each key; whether all of them were taken."""
        if any(row.key is not None for row in rows):
            # What was confirmed and is not deleted is sent again: not after the next of its key.
            self._settle()
        confirmed: list[int] = []
        has_queue, self._has_queue = self._has_queue, False
        try:
            if not has_queue:
                self._broker.declare(self._queue, lasting=True)
            for wave in _waves(rows):
                sent = self._broker.publish(self._queue, [row.message for row in wave])
                confirmed += [wave[place].id for place in sent.confirmed]
                if len(sent.confirmed) < len(wave):
                    self._hold(sent, taken=len(confirmed))
                    return False
        except BrokerRefused as problem:
            left = [row for row in rows if row.id not in set(confirmed)]
            if not self._find_refused(_waves(left)[0], worker=worker):
                self.contact.failed(problem)
            return False
        except BrokerUnavailable as problem:
            self.contact.failed(problem)
            return False
        except Exception as problem:
            # The client of a broker may raise anything: leave it alone for a while.
            said = f"{type(problem).__name__}: {problem}"[:300]
            self.contact.failed(BrokerUnavailable(self._queue.address, said))
            return False
        finally:
            # In one transaction for all waves: a message of a wave that is repeated has its old id.
            self._sent(confirmed, worker=worker)
        self._has_queue = True
        self.contact.answered()
        return True

    def _sent(self, ids: Sequence[int], *, worker: int) -> None:
        """Delete what was confirmed, while the next messages are sent."""
        self._settle()
        if ids:
            name = f"outbox-{self._queue.name}"
            self._deleting = in_background(partial(self._delete, ids, worker), name)

    def _settle(self) -> None:
        """Wait until what was confirmed is deleted."""
        deleting, self._deleting = self._deleting, None
        if deleting is not None:
            deleting.result()

    def _delete(self, ids: Sequence[int], worker: int) -> None:
        dialect, minute = self._site.database.dialect, self._site.clock.now() // MINUTE
        count = Count(minute, sent_kind(self._queue.name), worker, done=len(ids))

        def work(connection: Connection) -> None:
            outbox.sent(connection, ids)
            dialect.count(connection, [count])

        self._site.database.write_as(worker, work, lost=None)
        self.sent += len(ids)
        telemetry.emit("outbox.sent", queue=self._queue.name, messages=len(ids))
        meter = self._site.registry.meter
        if meter is not None:
            meter.publish(self._queue.name, len(ids))

    def _hold(self, sent: Sent, *, taken: int) -> None:
        """Leave the broker alone for a while: it did not take all."""
        if not sent.refused:
            self.contact.failed(BrokerUnavailable(self._queue.address, UNCONFIRMED))
            return
        why = next(iter(sent.refused.values()))
        self.contact.full(why, refused=len(sent.refused), is_moving=taken > 0)
        self._pages.narrow(2 * taken)

    def _find_refused(self, wave: Sequence[OutboxRow], *, worker: int) -> bool:
        """Find the message that the broker will never take; False if it is not about a message."""
        try:
            self._broker.declare(self._queue)
        except BrokerUnavailable:
            return False
        for row in wave:
            try:
                sent = self._broker.publish(self._queue, [row.message])
            except BrokerRefused as refusal:
                self._fail(row, str(refusal), worker=worker)
            except BrokerUnavailable:
                return False
            else:
                if sent.confirmed:
                    self._sent([row.id], worker=worker)
        return True

    def _fail(self, row: OutboxRow, error: str, *, worker: int) -> None:
        now, number = self._site.clock.now(), self._site.numbers.take()[0]
        text = f"message {row.message.id} for queue {self._queue.name!r}: {error}"

        def work(connection: Connection) -> None:
            outbox.fail(connection, row.id, error=error, now=now)
            trouble = Trouble(FAILED, self._queue.name, text)
            raise_alert(connection, number, trouble, now=now)

        self._site.database.write_as(worker, work, lost=None)
        telemetry.emit(
            "message.failed",
            kind="",
            queue=self._queue.name,
            message=row.message.id,
            error=error,
        )


class _Pages:
    """Reads pages of the outbox, each while the one before it is sent."""

    def __init__(self, read: ReadPage, *, name: str) -> None:
        self._read = read
        self._name = name
        self._limit = FIRST_PAGE
        self._ahead: tuple[object, Future[OutboxPage]] | None = None

    def read(self, buckets: Sequence[range], after: OutboxPlace) -> OutboxPage:
        """The messages after a place."""
        wanted, ahead = (list(buckets), after), self._ahead
        self._ahead = None
        # The buckets may be others by now.
        is_ahead = ahead is not None and ahead[0] == wanted
        page = ahead[1].result() if ahead and is_ahead else self._page(buckets, after)
        if page.following != OutboxPlace():
            read = partial(self._page, buckets, page.following)
            self._ahead = (list(buckets), page.following), in_background(read, self._name)
        return page

    def _page(self, buckets: Sequence[range], after: OutboxPlace) -> OutboxPage:
        limit = self._limit
        rows = self._read(buckets, after, limit)
        self._limit = next_limit(limit, [len(row.message.body) for row in rows])
        is_full = len(rows) == limit
        return OutboxPage(
            rows, OutboxPlace(rows[-1].bucket, rows[-1].id) if is_full else OutboxPlace()
        )

    def narrow(self, limit: int) -> None:
        """Read fewer at once: a full queue refuses what it is sent."""
        self._limit = min(self._limit, max(FEWEST, limit))

    def forget(self) -> None:
        """What was read ahead may be outdated when something is sent again."""
        self._ahead = None


def next_limit(limit: int, sizes: Sequence[int]) -> int:
    """How many messages to read at once after a page with bodies of these sizes."""
    if not sizes:
        return limit
    fitting = PAGE_BYTES * len(sizes) // max(1, sum(sizes))
    return max(1, min(AT_ONCE, 4 * limit, fitting))


def _waves(rows: Sequence[OutboxRow]) -> list[list[OutboxRow]]:
    """The rows in order, so that no wave has two messages of one key."""
    waves: list[list[OutboxRow]] = []
    placed: dict[str, int] = {}
    for row in rows:
        place = 0
        if row.key is not None:
            place = placed.get(row.key, -1) + 1
            placed[row.key] = place
        if place == len(waves):
            waves.append([])
        waves[place].append(row)
    return waves

"""RabbitMQ, by AMQP 0.9.1: publisher confirms for groups of messages.

kombu's own `confirm_publish` waits for each message. Here all messages of a group are sent, and
then their confirms are awaited, so a group costs one round trip. A refusal (`basic.nack`) is the
answer of a full queue, a return (`basic.return`) says that there is no such queue.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from windlass.errors import BrokerRefused
from windlass.queue.broker.consumer import KombuSubscription
from windlass.queue.broker.contract import Broker, Subscription
from windlass.queue.broker.frame import PublishFrames
from windlass.queue.broker.link import ANSWER_SECONDS, BrokerLink
from windlass.queue.model.message import NO_QUEUE, Outgoing, Sent
from windlass.queue.model.queue import Queue

# More are not sent before the first of them are confirmed: the broker's answers must fit into the
# buffers of the connection.
MOST_UNCONFIRMED = 1_000
AT_ONCE = 250
CONFIRM_SECONDS = 30.0
# RabbitMQ writes down that there is a new queue up to two seconds after it has said so. If it is
# killed before, the queue is gone, with all messages that it has confirmed.
WRITTEN_SECONDS = 2.5
NOT_FOUND = 404
# What is raised about a message that does not fit into AMQP.
UNWRITABLE = (struct.error, ValueError, TypeError, OverflowError)
# This many bytes are written to the socket at once: a call for each message costs as much as it.
GATHERED_BYTES = 64_000


class AmqpBroker(Broker):
    """One connection to RabbitMQ."""

    def __init__(self, queue: Queue) -> None:
        self._link = BrokerLink(queue, read_timeout=ANSWER_SECONDS, write_timeout=ANSWER_SECONDS)
        self._publisher: _Publisher | None = None

    def declare(self, queue: Queue, *, lasting: bool = False) -> None:
        with self._link.speaking() as connection:
            is_new = lasting and queue.declare and not _is_there(connection, queue)
            with connection.channel() as channel:
                _declare(channel, queue)
        if is_new:
            time.sleep(WRITTEN_SECONDS)

    def publish(self, queue: Queue, messages: Sequence[Outgoing], *, declare: bool = True) -> Sent:
        sent = Sent(set(), {})
        with self._link.speaking() as connection:
            if self._publisher is None or self._publisher.epoch != self._link.epoch:
                self._publisher = _Publisher(self._link, connection)
            if declare:
                self._publisher.declare(queue)
            if not self._publisher.publish(queue, messages, sent):
                # Late confirms would be taken for those of the next group.
                self._link.drop()
        return sent

    def subscribe(self, queue: Queue, *, prefetch: int, alone: str | None = None) -> Subscription:
        return KombuSubscription(
            self._link,
            queue,
            prefetch,
            declare=_declare,
            acks_ranges=True,
            is_alone=alone is not None,
        )

    def depth(self, queue: Queue) -> int:
        with self._link.speaking() as connection, connection.channel() as channel:
            return int(channel.queue_declare(queue.name, passive=True).message_count)

    def keep_alive(self) -> None:
        self._link.beat()

    def close(self) -> None:
        self._link.close()


class _Publisher:
    """A channel in confirm mode."""

    def __init__(self, link: BrokerLink, connection: Any) -> None:
        self._link = link
        self.epoch = link.epoch
        self._channel = connection.channel()
        self._channel.confirm_select()
        self._gathered = _Gathered(self._channel.connection.transport)
        self._channel.events["basic_ack"].add(self._acked)
        self._channel.events["basic_nack"].add(self._nacked)
        self._channel.events["basic_return"].add(self._returned)
        self._declared: set[Queue] = set()
        # Messages are numbered on a channel. All before the first one here are confirmed.
        self._first, self._last = 1, 0
        # The place of each unconfirmed message in its group, by its number.
        self._waiting: dict[int, int] = {}
        self._places: dict[str, deque[int]] = {}
        self._sent = Sent(set(), {})

    def declare(self, queue: Queue) -> None:
        """Make sure that the queue is there, once for each connection."""
        if queue not in self._declared:
            _declare(self._channel, queue)
            self._declared.add(queue)

    def publish(self, queue: Queue, messages: Sequence[Outgoing], sent: Sent) -> bool:
        """Send messages and wait for their confirms; False if some did not come in time."""
        self._sent = sent
        self._places = {}
        for place, message in enumerate(messages):
            self._places.setdefault(message.id, deque()).append(place)
        # As `basic_publish`, without a look at what has arrived after each message.
        frame_max = self._channel.connection.frame_max
        frames = PublishFrames(self._channel.channel_id, queue.name, frame_max=frame_max)
        for start in range(0, len(messages), AT_ONCE):
            # The broker confirms some while others are on their way.
            if not self._await_confirms(MOST_UNCONFIRMED - AT_ONCE):
                break
            self._write(frames, messages[start : start + AT_ONCE], start)
        is_done = self._await_confirms(0)
        if self._sent.refused:
            # The queue may be gone: look again before the next group.
            self._declared.discard(queue)
        return is_done

    def _write(self, frames: PublishFrames, messages: Sequence[Outgoing], start: int) -> None:
        for place, message in enumerate(messages, start):
            self._last += 1
            self._waiting[self._last] = place
            try:
                self._gathered.write(frames.of(message))
            except UNWRITABLE as problem:
                # The connection is closed: its numbers no longer count what was sent.
                raise BrokerRefused(
                    self._link.address,
                    f"message {message.id!r:.80} cannot be written in AMQP ({problem}); "
                    "check its id and headers",
                ) from None
        self._gathered.flush()

    def _await_confirms(self, most: int) -> bool:
        """Wait until at most this many messages are unconfirmed; whether that came in time."""
        until = time.monotonic() + CONFIRM_SECONDS
        while len(self._waiting) > most and time.monotonic() < until:
            self._link.read(1.0)
        return len(self._waiting) <= most

    def _acked(self, number: int, multiple: bool) -> None:
        self._sent.confirmed.update(
            place for place in self._answered(number, multiple) if place not in self._sent.refused
        )

    def _nacked(self, number: int, multiple: bool) -> None:
        for place in self._answered(number, multiple):
            self._sent.refused[place] = "the broker did not take it; its queue may be full"

    def _returned(self, _error: object, _exchange: str, routing_key: str, message: Any) -> None:
        # Messages with one id come back in the order in which they were sent.
        places = self._places.get(message.properties.get("message_id", ""))
        if places:
            self._sent.refused[places.popleft()] = f"{NO_QUEUE} {routing_key!r}"

    def _answered(self, number: int, multiple: bool) -> list[int]:
        """The places of the messages that an answer is about: one, or all up to its number."""
        first = self._first if multiple else number
        if multiple:
            self._first = number + 1
        found = (self._waiting.pop(each, None) for each in range(first, number + 1))
        return [place for place in found if place is not None]


class _Transport(Protocol):
    def write(self, data: bytes) -> None: ...


class _Gathered:
    """A transport that writes many frames at once."""

    def __init__(self, transport: _Transport) -> None:
        self._transport = transport
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size >= GATHERED_BYTES:
            self.flush()

    def flush(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        if parts:
            self._transport.write(b"".join(parts))


def _is_there(connection: Any, queue: Queue) -> bool:
    channel = connection.channel()
    try:
        channel.queue_declare(queue.name, passive=True)
    except connection.channel_errors as problem:
        if getattr(problem, "reply_code", None) == NOT_FOUND:
            # The broker has closed the channel.
            return False
        raise
    channel.close()
    return True


def _declare(channel: Any, queue: Queue) -> None:
    channel.queue_declare(
        queue.name,
        passive=not queue.declare,
        durable=True,
        auto_delete=False,
        arguments=dict(queue.arguments),
    )

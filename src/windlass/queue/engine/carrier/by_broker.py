"""The transport by a broker: a queue for messages, and a queue for the replies to each worker."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from windlass.errors import BrokerUnavailable
from windlass.queue.broker import broker_of
from windlass.queue.engine.carrier.transport import ArrivedReply, Transport
from windlass.queue.model.carrier import reply_queue
from windlass.queue.model.message import Delivered, Outgoing, Sent
from windlass.queue.model.queue import Queue

REPLY_PREFIX = "windlass.reply."
MOST_REPLIES = 1_000


class BrokerTransport(Transport):
    """Carries by one queue. Messages and replies have a connection each, as they have a thread."""

    def __init__(self, queue: Queue) -> None:
        self.reply_to = f"{REPLY_PREFIX}{secrets.token_hex(8)}"
        self._queue = queue
        self._replies = reply_queue(queue, self.reply_to)
        self._sending = broker_of(queue)
        self._receiving = broker_of(queue)
        self._subscription = self._receiving.subscribe(self._replies, prefetch=MOST_REPLIES)
        self._has_declared = False
        self._received: list[Delivered] = []

    def submit(self, messages: Sequence[Outgoing]) -> Sent:
        try:
            if not self._has_declared:
                # Where replies go must be there before the first of them.
                self._sending.declare(self._replies)
                self._has_declared = True
            return self._sending.publish(self._queue, messages)
        except BrokerUnavailable:
            # It may come back without the queue.
            self._has_declared = False
            raise

    def waiting(self) -> int:
        return self._sending.depth(self._queue)

    def replies(self, *, wait_seconds: float) -> Sequence[ArrivedReply]:
        self._received = self._subscription.take(MOST_REPLIES, wait_seconds=wait_seconds)
        return [ArrivedReply(each.body, each.correlation_id or "") for each in self._received]

    def received(self) -> None:
        self._subscription.acknowledge(self._received)
        self._received = []

    def close(self) -> None:
        self._sending.close()
        self._receiving.close()

"""Other transports of kombu, by its own producer and consumer. They are not tested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.errors import BadQueue
from windlass.queue.broker.consumer import KombuSubscription
from windlass.queue.broker.contract import Broker, Subscription
from windlass.queue.broker.link import BrokerLink
from windlass.queue.model.message import Outgoing, Sent
from windlass.queue.model.queue import Queue


class VirtualBroker(Broker):
    """A connection by whatever transport of kombu the URL names."""

    def __init__(self, queue: Queue) -> None:
        self._link = BrokerLink(queue)
        self._declared: set[tuple[int, Queue]] = set()

    def declare(self, queue: Queue, *, lasting: bool = False) -> None:
        del lasting
        with self._link.speaking() as connection:
            _declare(connection.default_channel, queue)

    def publish(self, queue: Queue, messages: Sequence[Outgoing], *, declare: bool = True) -> Sent:
        sent = Sent(set(), {})
        with self._link.speaking() as connection:
            if declare and (self._link.epoch, queue) not in self._declared:
                _declare(connection.default_channel, queue)
                self._declared = {(self._link.epoch, queue)}
            producer = connection.Producer()
            for place, message in enumerate(messages):
                producer.publish(
                    message.body,
                    exchange="",
                    routing_key=queue.name,
                    content_type=message.content_type,
                    content_encoding="binary",
                    headers=dict(message.headers),
                    message_id=message.id,
                    reply_to=message.reply_to,
                    correlation_id=message.correlation_id,
                    delivery_mode=2,
                )
                sent.confirmed.add(place)
        return sent

    def subscribe(self, queue: Queue, *, prefetch: int, alone: str | None = None) -> Subscription:
        if alone is not None:
            raise BadQueue(f"{queue!r}: lane= needs RabbitMQ or Redis; leave lane= out")
        return KombuSubscription(self._link, queue, prefetch, declare=_declare, acks_ranges=False)

    def depth(self, queue: Queue) -> int:
        with self._link.speaking() as connection:
            declared = connection.default_channel.queue_declare(queue.name, passive=True)
            return int(declared.message_count)

    def keep_alive(self) -> None:
        self._link.beat()

    def close(self) -> None:
        self._link.close()


def _declare(channel: Any, queue: Queue) -> None:
    channel.queue_declare(
        queue.name, passive=not queue.declare, durable=True, arguments=dict(queue.arguments)
    )

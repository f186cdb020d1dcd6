"""Subscriptions by kombu's consumer: RabbitMQ, and transports without one of their own."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from windlass.queue.broker.contract import Subscription, text_of
from windlass.queue.broker.link import BrokerLink
from windlass.queue.model.message import Delivered
from windlass.queue.model.queue import Queue


class KombuSubscription(Subscription):
    """Receives by `basic_consume` on a channel of its own."""

    def __init__(
        self,
        link: BrokerLink,
        queue: Queue,
        prefetch: int,
        *,
        declare: Callable[[Any, Queue], None],
        acks_ranges: bool,
        is_alone: bool = False,
    ) -> None:
        self._link = link
        self._queue = queue
        self._prefetch = prefetch
        self._declare = declare
        # Whether one acknowledgement can stand for all messages up to it.
        self._acks_ranges = acks_ranges
        # Whether the broker lets nobody else receive; what the last one had comes back first.
        self._is_alone = is_alone
        self._epoch = 0
        self._channel: Any = None
        self._consumer = ""
        self._arrived: deque[Delivered] = deque()
        # Tags that the broker waits to hear about, in the order of delivery.
        self._open: dict[Any, None] = {}

    def take(self, most: int, *, wait_seconds: float) -> list[Delivered]:
        with self._link.speaking() as connection:
            self._subscribe(connection)
            until = time.monotonic() + wait_seconds
            while not self._arrived:
                left = until - time.monotonic()
                if left <= 0 or not self._link.read(min(left, 1.0)):
                    self._link.beat()
                    if left <= 1.0:
                        break
            while len(self._arrived) < min(most, self._prefetch) and self._link.read(0):
                pass
        return [self._arrived.popleft() for _ in range(min(most, len(self._arrived)))]

    def acknowledge(self, deliveries: Sequence[Delivered]) -> int:
        tags = self._known(deliveries)
        if not tags:
            return 0
        with self._link.speaking():
            rest = tags
            if self._acks_ranges:
                rest = self._acknowledge_front(tags)
            for tag in rest:
                self._channel.basic_ack(tag)
        self._forget(tags)
        return len(tags)

    def reject(self, deliveries: Sequence[Delivered]) -> int:
        return self._refuse(deliveries, requeue=False)

    def requeue(self, deliveries: Sequence[Delivered]) -> int:
        return self._refuse(deliveries, requeue=True)

    def close(self) -> None:
        channel, is_current = self._channel, self._epoch == self._link.epoch
        try:
            if channel is not None and is_current and self._link.is_open:
                with self._link.speaking():
                    channel.basic_cancel(self._consumer)
                    channel.close()
        finally:
            self._channel, self._epoch = None, 0
            self._arrived.clear()
            self._open.clear()

    def _subscribe(self, connection: Any) -> None:
        if self._channel is not None and self._epoch == self._link.epoch:
            return
        self._arrived.clear()
        self._open.clear()
        channel = connection.channel()
        # A body is bytes: what its sender says about their encoding may be wrong.
        channel.auto_decode = False
        self._declare(channel, self._queue)
        channel.basic_qos(0, self._prefetch, False)
        self._channel, self._epoch = channel, self._link.epoch
        self._consumer = f"windlass-{id(self)}-{self._epoch}"
        channel.basic_consume(
            queue=self._queue.name,
            callback=self._receive,
            consumer_tag=self._consumer,
            no_ack=False,
            **({"exclusive": True} if self._is_alone else {}),
        )

    def _receive(self, raw: Any) -> None:
        message = self._channel.message_to_python(raw) if not hasattr(raw, "ack") else raw
        body = message.body
        properties = message.properties or {}
        tag = message.delivery_tag
        self._open[tag] = None
        self._arrived.append(
            Delivered(
                body=body.encode() if isinstance(body, str) else bytes(body or b""),
                id=text_of(properties.get("message_id")),
                content_type=message.content_type or "",
                content_encoding=message.content_encoding or "",
                headers=message.headers or {},
                reply_to=text_of(properties.get("reply_to")),
                correlation_id=text_of(properties.get("correlation_id")),
                is_again=bool((message.delivery_info or {}).get("redelivered")),
                tag=tag,
                epoch=self._epoch,
            )
        )

    def _acknowledge_front(self, tags: list[Any]) -> list[Any]:
        """Acknowledge the oldest open messages, as far as all are in `tags`; those left over."""
        told = set(tags)
        front = None
        count = 0
        for tag in self._open:
            if tag not in told:
                break
            front, count = tag, count + 1
        if count < 2:
            return tags
        self._channel.basic_ack(front, multiple=True)
        return [tag for tag in tags if tag > front]

    def _refuse(self, deliveries: Sequence[Delivered], *, requeue: bool) -> int:
        tags = self._known(deliveries)
        if tags:
            with self._link.speaking():
                for tag in tags:
                    self._channel.basic_reject(tag, requeue=requeue)
            self._forget(tags)
        return len(tags)

    def _known(self, deliveries: Sequence[Delivered]) -> list[Any]:
        """The tags of those that came by the connection that is open now."""
        if not self._link.is_open or self._epoch != self._link.epoch:
            return []
        tags = [each.tag for each in deliveries if each.epoch == self._epoch]
        return [tag for tag in tags if tag in self._open]

    def _forget(self, tags: Sequence[Any]) -> None:
        for tag in tags:
            self._open.pop(tag, None)

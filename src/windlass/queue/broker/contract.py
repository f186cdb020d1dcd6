"""The contract of brokers: what the inbox, the outbox and the carrier need from one.

Another broker, such as Kafka, is another implementation of these two classes, which is registered
for the scheme of its URLs (`windlass.queue.register`). One thread at a time uses a broker and its
subscriptions. None of them connects before it is used. After a connection was lost, the call that
noticed raises BrokerUnavailable, and the next call connects again; what was delivered and not
acknowledged is then delivered again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

from windlass.queue.model.message import Delivered, Outgoing, Sent
from windlass.queue.model.queue import Queue


class Broker(ABC):
    """A connection to the broker of one URL."""

    @abstractmethod
    def declare(self, queue: Queue, *, lasting: bool = False) -> None:
        """Make sure that the queue is there. Raises BrokerRefused if it cannot be.

        With `lasting` it returns when the broker will have the queue, too, if it is killed now.
        That may take some seconds for a queue that was not there.
        """

    @abstractmethod
    def publish(self, queue: Queue, messages: Sequence[Outgoing], *, declare: bool = True) -> Sent:
        """Send messages in this order, and wait until the broker has answered for each.

        Without `declare` the queue must be there, and what is sent to one that is gone is refused.

        Messages that are neither confirmed nor refused may have arrived: send them again. Raises
        BrokerUnavailable if nothing is known about any of them.
        """

    @abstractmethod
    def subscribe(self, queue: Queue, *, prefetch: int, alone: str | None = None) -> Subscription:
        """Receive messages of the queue, at most `prefetch` of them unacknowledged.

        With `alone`, a name of this receiver, no other receives at the same time, and what earlier
        ones have not acknowledged comes first, in order.
        """

    @abstractmethod
    def depth(self, queue: Queue) -> int:
        """How many messages wait in the queue. Raises BrokerRefused if there is none."""

    @abstractmethod
    def keep_alive(self) -> None:
        """Tell the broker that this side is there. Call it every few seconds while in use."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection. It opens again when it is used."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Subscription(ABC):
    """The messages of one queue. It subscribes by itself, also after a lost connection."""

    @abstractmethod
    def take(self, most: int, *, wait_seconds: float) -> list[Delivered]:
        """The next messages, up to `most`; waits for the first of them, but not for more."""

    @abstractmethod
    def acknowledge(self, deliveries: Sequence[Delivered]) -> int:
        """Have the broker forget them; how many it was told about.

        Deliveries of a lost connection are left out: the broker delivers those again.
        """

    @abstractmethod
    def reject(self, deliveries: Sequence[Delivered]) -> int:
        """Have the broker drop them, or move them to the dead-letter exchange of the queue."""

    @abstractmethod
    def requeue(self, deliveries: Sequence[Delivered]) -> int:
        """Give them back to the queue, to be delivered again soon, to anybody."""

    @abstractmethod
    def close(self) -> None:
        """Stop receiving. What was not acknowledged goes back to the queue."""


def text_of(value: object) -> str | None:
    """A property of a message as text; None without one."""
    return None if value is None or value == "" else str(value)

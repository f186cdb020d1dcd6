"""Queues of a message broker: messages in once, and messages out after the commit."""

from typing import TYPE_CHECKING

from windlass.lazy import attributes_of
from windlass.queue.model.queue import Queue

if TYPE_CHECKING:
    from windlass.queue.broker import Broker, Subscription, register
    from windlass.queue.engine.carrier.transport import ArrivedReply, Carrier, Transport
    from windlass.queue.model.message import (
        Delivered,
        FailedMessage,
        Outgoing,
        ReceivedMessage,
        Sent,
    )
    from windlass.queue.operate.handle import Consumer
    from windlass.queue.operate.operate import QueueDetail, QueueView

__all__ = [
    "ArrivedReply",
    "Broker",
    "Carrier",
    "Consumer",
    "Delivered",
    "FailedMessage",
    "Outgoing",
    "Queue",
    "QueueDetail",
    "QueueView",
    "ReceivedMessage",
    "Sent",
    "Subscription",
    "Transport",
    "register",
]

__getattr__ = attributes_of(
    __name__,
    {
        "windlass.queue.engine.carrier.transport": ("ArrivedReply", "Carrier", "Transport"),
        "windlass.queue.broker": ("Broker", "Subscription", "register"),
        "windlass.queue.model.message": (
            *("Delivered", "FailedMessage", "Outgoing", "ReceivedMessage", "Sent"),
        ),
        "windlass.queue.operate.handle": ("Consumer",),
        "windlass.queue.operate.operate": ("QueueDetail", "QueueView"),
    },
)

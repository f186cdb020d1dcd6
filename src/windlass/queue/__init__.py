"""Queues of a message broker: messages in once, and messages out after the commit."""

from typing import TYPE_CHECKING

from windlass.lazy import attributes_of
from windlass.queue.model.queue import Queue

if TYPE_CHECKING:
    from windlass.queue.model.message import FailedMessage, ReceivedMessage
    from windlass.queue.operate.handle import Consumer
    from windlass.queue.operate.operate import QueueDetail, QueueView

__all__ = ["Consumer", "FailedMessage", "Queue", "QueueDetail", "QueueView", "ReceivedMessage"]

__getattr__ = attributes_of(
    __name__,
    {
        "windlass.queue.model.message": ("FailedMessage", "ReceivedMessage"),
        "windlass.queue.operate.handle": ("Consumer",),
        "windlass.queue.operate.operate": ("QueueDetail", "QueueView"),
    },
)

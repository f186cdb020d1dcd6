"""A worker and a consumer on threads of the test, and a consumer that is moved by hand."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tests.wait import eventually
from windlass.queue import Queue
from windlass.queue.broker import broker_of
from windlass.queue.engine.carrier.receiver import Receiver
from windlass.queue.engine.carrier.sender import CarrierSender
from windlass.queue.model.message import Delivered, Outgoing
from windlass.value.twin import in_background


@contextmanager
def running(made: Any) -> Iterator[Any]:
    """Run a worker or a consumer on a thread, until the end of the block."""
    ended = in_background(lambda: asyncio.run(made.run()), "test")
    try:
        yield made
    finally:
        made.stop()
        ended.result(timeout=40.0)


def sender_of(worker: Any) -> CarrierSender:
    return next(loop for loop in worker.face_loops if isinstance(loop, CarrierSender))


def receiver_of(worker: Any) -> Receiver:
    return next(loop for loop in worker.face_loops if isinstance(loop, Receiver))


class Hand:
    """A consumer in the hand of a test: takes messages, and answers what the test says."""

    def __init__(self, queue: Queue, *, prefetch: int = 100) -> None:
        self.queue = queue
        self.broker = broker_of(queue)
        self.broker.declare(queue)
        self.subscription = self.broker.subscribe(queue, prefetch=prefetch)

    def take(self, count: int = 1) -> list["Message"]:
        """So many messages, as they come."""
        found: list[Delivered] = []

        def took() -> bool:
            found.extend(self.subscription.take(count - len(found), wait_seconds=0.2))
            return len(found) >= count

        eventually(took, 15.0, what=f"{count} messages in {self.queue.name}")
        return [Message(self, delivery) for delivery in found]

    def depth(self) -> int:
        with broker_of(self.queue) as broker:
            return broker.depth(self.queue)

    def close(self) -> None:
        """Go, as a consumer that dies: what is not acknowledged is delivered again."""
        self.subscription.close()
        self.broker.close()

    def __enter__(self) -> "Hand":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Message:
    """One message that a hand took."""

    def __init__(self, hand: Hand, delivery: Delivered) -> None:
        self.hand = hand
        self.delivery = delivery
        self.body: dict[str, Any] = msgspec.json.decode(delivery.body)

    def __getitem__(self, name: str) -> Any:
        return self.body[name]

    def send(self, body: bytes) -> None:
        """Send these bytes to where replies go."""
        replies = Queue(self.hand.queue.url, self["reply_to"])
        sent = self.hand.broker.publish(replies, [Outgoing("r", body)], declare=False)
        assert sent.confirmed == {0}

    def reply(self, outcome: str = "succeeded", **said: Any) -> None:
        """Reply, and leave the message unacknowledged."""
        self.send(
            msgspec.json.encode({"windlass": 1, "id": self["id"], "outcome": outcome, **said})
        )

    def acknowledge(self) -> None:
        assert self.hand.subscription.acknowledge([self.delivery]) == 1

    def answer(self, outcome: str = "succeeded", **said: Any) -> None:
        """Reply, and acknowledge."""
        self.reply(outcome, **said)
        self.acknowledge()

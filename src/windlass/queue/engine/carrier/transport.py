"""The contract of transports: how messages reach consumers, and how their replies come back.

`by_broker.py` has the implementation for queues of brokers. Another one is given by an object of
your own as `via=`: a `Carrier`, whose `connect` makes a transport for each worker.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from windlass.queue.model.message import Outgoing, Sent


class ArrivedReply(NamedTuple):
    """A reply as it arrived: its JSON, and what it is about if that is known without reading it."""

    body: bytes
    about: str = ""


class Transport(ABC):
    """The way of one worker to the consumers, and back.

    One thread calls `submit` and `waiting`, another one `replies` and `received`. None of them may
    take longer than a few seconds. Each raises BrokerUnavailable if the other side does not answer;
    it is then called again after a pause.
    """

    # Where consumers send the replies for this worker: a member of every message.
    reply_to: str = ""

    @abstractmethod
    def submit(self, messages: Sequence[Outgoing]) -> Sent:
        """Send messages to consumers; says by their places which of them are safe there.

        Those that are neither confirmed nor refused are sent again under the same id.
        """

    @abstractmethod
    def waiting(self) -> int:
        """How many messages no consumer has taken yet, those of all workers together."""

    @abstractmethod
    def replies(self, *, wait_seconds: float) -> Sequence[ArrivedReply]:
        """The replies that have arrived; waits no longer than that for the first of them."""

    @abstractmethod
    def received(self) -> None:
        """The replies of the last call are recorded, and need not come again."""

    @abstractmethod
    def close(self) -> None:
        """The worker ends."""


class Carrier(ABC):
    """Your own way to carry tasks to consumers: give an instance as `via=`.

    People see its `name` and its `address`; the address must not contain a password.
    """

    carried_by = "queue"
    name: str
    address: str = ""

    @abstractmethod
    def connect(self) -> Transport:
        """A transport for one worker. It connects when it is used."""

"""Sends the replies of a consumer, and remembers the last of them."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from windlass.core.loop import Loop
from windlass.errors import BadQueue, BrokerUnavailable
from windlass.queue.broker import broker_of
from windlass.queue.engine.carrier.errand import Errand
from windlass.queue.engine.carrier.intake import FIRST_PAUSE, IDLE_SECONDS, Patience
from windlass.queue.model.carrier import RunReply, encode, reply_queue
from windlass.queue.model.message import Outgoing
from windlass.queue.model.queue import Queue

# How many replies are remembered, in case their messages are delivered again.
REMEMBERED = 2_000


class Replier(Loop):
    """Its connection is not that of the intake, so that a reply never waits for a message."""

    name = "replier"

    def __init__(self, queue: Queue, *, answered: Callable[[Errand], None]) -> None:
        super().__init__()
        self._queue = queue
        self._answered = answered
        self._broker = broker_of(queue)
        self._patience = Patience(queue)
        self._lock = threading.Lock()
        self._waiting: deque[Errand] = deque()
        self._sending = 0
        self._remembered: OrderedDict[str, RunReply] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting) + self._sending

    @property
    def away(self) -> str | None:
        """Why the broker takes no replies; None if it does."""
        return self._patience.away

    def put(self, errand: Errand, reply: RunReply) -> None:
        """Send this reply."""
        errand.reply = reply
        self._waiting.append(errand)
        self.wake()

    def remembered(self, number: str) -> RunReply | None:
        """The reply that was sent for this id, if it is not long ago."""
        with self._lock:
            return self._remembered.get(number)

    def tick(self) -> float:
        self._sending = len(self._waiting)
        group = [self._waiting.popleft() for _ in range(self._sending)]
        by_worker: dict[str, list[Errand]] = {}
        for errand in group:
            by_worker.setdefault(errand.reply_to, []).append(errand)
        try:
            while by_worker:
                name, errands = next(iter(by_worker.items()))
                self._waiting.extend(self._send(name, errands))
                del by_worker[name]
        except BrokerUnavailable as problem:
            unsent = [errand for errands in by_worker.values() for errand in errands]
            self._waiting.extendleft(reversed(unsent))
            return self._patience.lost(problem)
        finally:
            self._sending = 0
        self._patience.found()
        return FIRST_PAUSE if self._waiting else IDLE_SECONDS

    def _send(self, name: str, errands: Sequence[Errand]) -> list[Errand]:
        """Send replies to one worker; returns those to send again."""
        messages = [
            Outgoing(f"reply-{errand.id}", encode(errand.reply), correlation_id=errand.id)
            for errand in errands
            if errand.reply is not None
        ]
        try:
            queue = reply_queue(self._queue, name)
        except BadQueue:
            # No worker has such a queue: nobody waits for these replies.
            for errand in errands:
                self._answered(errand)
            return []
        sent = self._broker.publish(queue, messages, declare=False)
        left: list[Errand] = []
        for place, errand in enumerate(errands):
            # A reply queue that is gone is that of a worker that is gone.
            if place in sent.confirmed or place in sent.gone:
                self._remember(errand)
                self._answered(errand)
            else:
                left.append(errand)
        return left

    def _remember(self, errand: Errand) -> None:
        if errand.run is None or errand.reply is None:
            return
        with self._lock:
            self._remembered[errand.id] = errand.reply
            while len(self._remembered) > REMEMBERED:
                self._remembered.popitem(last=False)

    def close(self) -> None:
        """End the connection."""
        self._broker.close()

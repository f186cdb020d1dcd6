"""Takes messages from the queue, and acknowledges those whose replies are confirmed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from windlass import telemetry
from windlass.core.loop import Loop
from windlass.errors import BrokerRefused, BrokerUnavailable
from windlass.queue.broker import broker_of
from windlass.queue.engine.carrier.errand import Errand
from windlass.queue.model.message import Delivered
from windlass.queue.model.queue import Queue

# While something runs, acknowledgements are sent so often.
BUSY_SECONDS = 0.005
IDLE_SECONDS = 0.25
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0


class Patience:
    """When to try a broker again that does not answer, and what to say about it."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._losses = 0
        self.away: str | None = None

    def lost(self, problem: BrokerUnavailable) -> float:
        """It does not answer: how many seconds to wait."""
        self._losses += 1
        self.away = str(problem)
        if self._losses == 1 or self._losses % 20 == 0:
            telemetry.emit(
                "queue.failed",
                queue=self._queue.name,
                broker=self._queue.address,
                error=str(problem)[:300],
                failures=self._losses,
            )
        return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._losses - 1, 10)))

    def found(self) -> None:
        """It answers."""
        if self.away is not None:
            telemetry.emit("queue.back", queue=self._queue.name, broker=self._queue.address)
        self.away, self._losses = None, 0


class Intake(Loop):
    """The messages of a consumer that are not acknowledged, and the way to more of them."""

    name = "intake"

    def __init__(
        self, queue: Queue, *, prefetch: int, accept: Callable[[Sequence[Delivered]], None]
    ) -> None:
        super().__init__()
        # By the id of what they carry.
        self.errands: dict[str, Errand] = {}
        self._queue = queue
        self._prefetch = prefetch
        self._accept = accept
        self._broker = broker_of(queue)
        self._subscription = self._broker.subscribe(queue, prefetch=prefetch)
        self._patience = Patience(queue)
        self._answered: deque[Errand] = deque()
        self._returned: deque[Errand] = deque()
        self._rejected: deque[Delivered] = deque()
        self._is_closing = False

    @property
    def away(self) -> str | None:
        """Why the broker gives no messages; None if it does."""
        return self._patience.away

    def open(self) -> None:
        """Connect. Raises if the broker refuses; one that does not answer is tried again."""
        try:
            self._broker.declare(self._queue)
        except BrokerRefused:
            raise
        except BrokerUnavailable as problem:
            self._patience.lost(problem)

    def tick(self) -> float:
        try:
            self.acknowledge()
            if self._is_closing:
                self._broker.keep_alive()
                return BUSY_SECONDS if self.errands else IDLE_SECONDS
            wait = BUSY_SECONDS if self.errands else IDLE_SECONDS
            self._accept(self._subscription.take(self._prefetch, wait_seconds=wait))
        except BrokerUnavailable as problem:
            return self._patience.lost(problem)
        self._patience.found()
        return 0.0

    def answered(self, errand: Errand) -> None:
        """The reply is confirmed."""
        self._answered.append(errand)

    def give_back(self, errand: Errand) -> None:
        """It has not begun, and goes back to the queue."""
        self._returned.append(errand)

    def reject(self, delivery: Delivered) -> None:
        """Drop a message that nobody can answer."""
        self._rejected.append(delivery)

    def drop(self, delivery: Delivered) -> None:
        """Drop a message that cannot even begin."""
        for number, errand in list(self.errands.items()):
            if errand.delivery is delivery:
                del self.errands[number]
        self.reject(delivery)

    def acknowledge(self) -> None:
        """Tell the broker what became of messages.

        A lost connection costs nothing: they are delivered again.
        """
        subscription = self._subscription
        if self._rejected:
            subscription.reject([self._rejected.popleft() for _ in range(len(self._rejected))])
        for ended, tell in (
            (self._answered, subscription.acknowledge),
            (self._returned, subscription.requeue),
        ):
            if ended:
                errands = [ended.popleft() for _ in range(len(ended))]
                for errand in errands:
                    self.errands.pop(errand.id, None)
                tell([errand.delivery for errand in errands])

    def close_to_new(self) -> None:
        """Take nothing more."""
        self._is_closing = True
        self.wake()

    def close(self) -> None:
        """What is not acknowledged goes back to the queue."""
        with suppress(BrokerUnavailable):
            self.acknowledge()
        with suppress(BrokerUnavailable):
            self._subscription.close()
        self._broker.close()

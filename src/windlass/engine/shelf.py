"""The shelf: runs that wait for a runner, highest priority first; equals take turns."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.engine.hold import Run

# Priority, lowest number first; whether it has no rate, as moments to start at do not wait; kind.
Lane = tuple[int, bool, str]


class Shelf:
    """Queued runs of the async or of the sync kinds, highest priority first."""

    def __init__(self) -> None:
        self.queues: dict[Lane, deque[Run]] = {}
        self.order: list[Lane] = []
        self.queued = 0

    def put(self, run: Run) -> None:
        lane = (-run.task.priority, not run.load.is_rated, run.kind.name)
        queue = self.queues.get(lane)
        if queue is None:
            queue = self.queues[lane] = deque()
            insort(self.order, lane, key=lambda each: each[:2])
        queue.append(run)
        self.queued += 1

    def take(self) -> Run | None:
        """The first run whose kind may have one more running."""
        for index, lane in enumerate(self.order):
            queue = self.queues[lane]
            load = queue[0].load
            if load.running >= load.limit or not load.is_open or load.is_tripped:
                continue
            if load.slots is not None and not load.slots.take(load.holder, lane[2], load.limit):
                continue
            run = queue.popleft()
            self.queued -= 1
            if not queue:
                del self.queues[lane]
                del self.order[index]
            elif len(self.order) > 1:
                self._rotate(index)
            return run
        return None

    def _rotate(self, index: int) -> None:
        """Let the other lanes of the same rank come first the next time."""
        lane = self.order.pop(index)
        while index < len(self.order) and self.order[index][:2] == lane[:2]:
            index += 1
        self.order.insert(index, lane)

    def drop(self, is_wanted: Callable[[Run], bool]) -> list[Run]:
        """Take out all runs of which that is so."""
        dropped: list[Run] = []
        for lane, queue in list(self.queues.items()):
            gone = [run for run in queue if is_wanted(run)]
            if not gone:
                continue
            dropped += gone
            if len(gone) == len(queue):
                del self.queues[lane]
                self.order.remove(lane)
            else:
                self.queues[lane] = deque(run for run in queue if not is_wanted(run))
        self.queued -= len(dropped)
        return dropped

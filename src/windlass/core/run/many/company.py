"""Company: rows of kinds with `wait=` wait here until a list is full, or long enough.

They are not in a ready queue meanwhile, so no runner looks at them in vain.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from windlass.clock import SECOND
from windlass.core.loop import Loop
from windlass.value.period import HURRIED

if TYPE_CHECKING:
    from windlass.core.run.in_flight import InFlight
    from windlass.core.run.ready import KindLoad, Run

NOTHING_WAITS_SECONDS = 60.0
SHORTEST_SECONDS = 0.001


class Company:
    """The runs that wait for company, by kind. Used under the lock of `InFlight`."""

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._kinds: dict[KindLoad, deque[Run]] = {}
        # Called when the first of a kind begins to wait.
        self._on_first = on_first

    def __len__(self) -> int:
        return sum([len(waiting) for waiting in self._kinds.values()])

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Run]:
        for waiting in self._kinds.values():
            yield from waiting

    def put(self, run: Run) -> bool:
        """Let a run wait; False if it need not: a caller waits for it, or it runs alone."""
        if run.is_probe or run.task.lost or run.task.priority == HURRIED:
            return False
        # When it came. A start sets this again.
        run.began = time.monotonic()
        waiting = self._kinds.setdefault(run.load, deque())
        waiting.append(run)
        if len(waiting) == 1:
            self._on_first()
        return True

    def release(self, now: float) -> list[Run]:
        """The runs that have company, or have waited for long enough."""
        released: list[Run] = []
        for load, waiting in self._kinds.items():
            most, wait = _terms(load)
            full = len(waiting) - len(waiting) % most
            if full < len(waiting) and waiting[full].began + wait <= now:
                full = len(waiting)
            released += [waiting.popleft() for _ in range(full)]
        return released

    def next_at(self) -> float | None:
        """When the next of them has waited for long enough, on the monotonic clock."""
        kinds = self._kinds.items()
        return min((runs[0].began + _terms(load)[1] for load, runs in kinds if runs), default=None)

    def drop(self, is_meant: Callable[[Run], bool]) -> list[Run]:
        """Remove and return all runs that are meant."""
        dropped = [run for run in self if is_meant(run)]
        if dropped:
            gone = {id(run) for run in dropped}
            for load, waiting in self._kinds.items():
                self._kinds[load] = deque(run for run in waiting if id(run) not in gone)
        return dropped


def _terms(load: KindLoad) -> tuple[int, float]:
    """How many a list has at most, and how many seconds the first waits."""
    assert load.kind.many is not None
    return load.kind.many.most, load.kind.many.wait / SECOND


class Gatherer(Loop):
    """Lets runs start that have waited for company for long enough."""

    name = "gatherer"

    def __init__(self, in_flight: InFlight) -> None:
        super().__init__()
        self._in_flight = in_flight
        in_flight.queues.on_gathering = self.wake

    def tick(self) -> float:
        next_at = self._in_flight.release_company()
        if next_at is None:
            return NOTHING_WAITS_SECONDS
        return max(SHORTEST_SECONDS, next_at - time.monotonic())

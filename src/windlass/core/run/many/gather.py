"""The gatherer: lets lists start that have waited for company for long enough."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from windlass.core.loop import Loop

if TYPE_CHECKING:
    from windlass.core.run.in_flight import InFlight

NOTHING_WAITS_SECONDS = 60.0
SHORTEST_SECONDS = 0.001


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

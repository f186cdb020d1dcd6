"""One clock for everything: what the engine measures in memory follows the manual clock."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from windlass.clock import ManualClock
from windlass.core.fetch import fetcher as feed
from windlass.core.fetch import owner as read
from windlass.core.fetch import quarantine as alone
from windlass.core.finish import finish
from windlass.core.limit import rate
from windlass.core.ring import heartbeat as life
from windlass.core.ring import mark, ring
from windlass.core.run import in_flight as hold
from windlass.core.run import runner as run
from windlass.database import database, number

TIMED = (alone, feed, finish, hold, life, mark, rate, read, ring, run, database, number)


class Clockwork:
    """Stands in for the module `time`; whoever sleeps does not."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def monotonic(self) -> float:
        return self._clock._time / 1e6

    def monotonic_ns(self) -> int:
        return self._clock._time * 1_000

    def time(self) -> float:
        return self.monotonic()

    def sleep(self, seconds: float) -> None:
        """Nobody else could move meanwhile."""


@contextmanager
def following(clock: ManualClock) -> Iterator[None]:
    """Let the monotonic clock of the engine follow `clock` while the block lasts."""
    with pytest.MonkeyPatch.context() as patch:
        for module in TIMED:
            patch.setattr(module, "time", Clockwork(clock))
        yield

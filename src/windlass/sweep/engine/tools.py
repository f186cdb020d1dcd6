"""What all sweeps of one worker share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from windlass.clock import Clock
from windlass.core.limit.gate import Gate
from windlass.core.run.in_flight import InFlight
from windlass.database.database import Database
from windlass.database.number import Numbers


@dataclass(frozen=True)
class Tools:
    """The parts of a worker that its sweeps use, and how the worker was started."""

    database: Database
    clock: Clock
    numbers: Numbers
    in_flight: InFlight
    gate: Gate
    # Makes the sweeper tick at once.
    wake: Callable[[], None]
    # Whether nothing new may begin, because a row has to run alone.
    is_quiet: Callable[[], bool]
    # Whether the worker ends when nothing is due; it then runs at most one round of each sweep.
    once: bool
    # Whether the worker only retries failed items.
    only_retries: bool
    # How many threads call each source. Sources share none: one that hangs must not block others.
    threads: int

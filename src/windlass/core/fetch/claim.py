"""The contract between the fetcher and the ways to get due rows.

There are two ways. The *owner's read* takes rows of the worker's own buckets and writes nothing.
The *written claim* stamps rows that any worker may take, before they run. Both give a row to one
living worker at a time, with everything that run and finish need.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from windlass.core.run.load import Room
from windlass.value.task import Claimed


@dataclass(frozen=True)
class Taken:
    """Rows to run, and when to ask again if there are none.

    The rows in `poison` have failed already; the fetcher only emits their events.
    """

    tasks: list[Claimed] = field(default_factory=list)
    poison: list[Claimed] = field(default_factory=list)
    next_due_in: float | None = None
    some_quarantined: bool = False
    # Whether rows may be due in buckets that this worker is about to own.
    is_settling: bool = False
    # Seconds until a kind that only its rate holds back may start a row.
    held_for: float | None = None
    # The rows that probe an open breaker.
    probes: set[int] = field(default_factory=set)
    # The kinds that may have more abandoned rows than there was room for.
    left: set[str] = field(default_factory=set)


class Claims(Protocol):
    """Where a worker's rows come from."""

    def tend(self) -> bool:
        """Acquire and release buckets; returns whether the worker has its full share."""

    def take(self, room: Room) -> Taken:
        """Due rows that fit into `room`, highest priority and then oldest first."""

    def look_again(self) -> None:
        """A task was enqueued: look at the database before the next take."""

    def take_abandoned(self, kinds: Collection[str], room: Room, *, alone: bool) -> Taken:
        """Rows of dead workers that fit into `room`; with `alone`, one row that must run alone."""

    def help(self) -> None:
        """Offer rows to workers that have time, if this one has no room for them."""

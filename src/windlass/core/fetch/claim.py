"""The seam where rows come from: a claim gives a worker rows that are due and nobody else's.

There are two ways behind it. The *owner's read* takes the rows of buckets that are this worker's,
and writes nothing. The *written claim* stamps rows before they run: any worker may take them.
Whichever it is, a row is given to one living worker at a time, and what comes back is everything
that run and finish need.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from windlass.core.run.load import Room
from windlass.value.task import Claimed


@dataclass(frozen=True)
class Taken:
    """What a claim brought to run, and when to ask again if it brought nothing.

    `poison` was failed on the way and is only told.
    """

    tasks: list[Claimed]
    poison: list[Claimed]
    next_due_in: float | None = None
    some_quarantined: bool = False
    # Whether rows may be due in buckets that are about to be ours.
    is_settling: bool = False
    # How long until a kind may go on that only its rate holds back.
    held_for: float | None = None
    # The rows whose end decides about an open breaker.
    probes: set[int] = field(default_factory=set)
    # The kinds of which more may have abandoned than there was room for.
    left: set[str] = field(default_factory=set)


class Claims(Protocol):
    """Where a worker's rows come from."""

    def tend(self) -> bool:
        """Take and give up what rows come from; whether all is as it should be."""
        ...

    def take(self, room: Room) -> Taken:
        """Due rows that fit into `room`, highest priority and then oldest first."""
        ...

    def look_again(self) -> None:
        """Something new was enqueued: look before taking what was known."""
        ...

    def take_abandoned(self, kinds: Collection[str], room: Room, *, alone: bool) -> Taken:
        """Rows that fell when their worker died and fit into `room`.

        With `alone`, one that must run by itself.
        """
        ...

    def help(self) -> None:
        """Offer others what there is no room for, if they have time."""
        ...

"""Chains: rows of one lane that were read together, and run one after the other.

Without a chain, the next row of a lane is read when the outcome of the last one is committed: a
lane does one row per group commit. With a chain, the next row starts as soon as the last one has
succeeded. The outcomes wait for the group commit in their order, and none is written before that
of the row before it.

A chain ends with the first run that does anything but succeed, and with everything that takes back
what has not started: a pause, a bucket that changes hands, a worker that stops. It is also only
good for a moment after its read. Then the rows that have not started are forgotten, and the lane
is read again when what has started is written down. So a row that is committed late, cancelled or
removed is seen a moment later than without a chain.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from windlass.value.outcome import Succeeded
from windlass.value.task import Claimed

if TYPE_CHECKING:
    from windlass.core.run.ready import KindLoad, Run

# How long after its read a row behind the first one may start.
FRESH_SECONDS = 0.1
# Of that time, how much a chain should take.
PLANNED_PART = 0.8
# The next rows are read when no more than this part of them is left.
LEAST_LEFT_PART = 0.5
LONGEST_CHAIN = 64
# At least this many lanes are served side by side.
FEWEST_ABREAST = 8


class Chain:
    """The rows of a lane behind a run, in their order. Used under the lock of `InFlight`."""

    __slots__ = ("_fresh_until", "_rows", "is_over")

    def __init__(self, rows: Iterable[Claimed], *, read_at: float) -> None:
        self._rows = deque(rows)
        self._fresh_until = read_at + FRESH_SECONDS
        # Whether the last of its rows has succeeded while the read was fresh.
        self.is_over = False

    def __len__(self) -> int:
        return len(self._rows)

    def is_stale(self, now: float) -> bool:
        """Whether none of its rows may start any more."""
        return now > self._fresh_until

    def next_after(self, run: Run, now: float) -> Claimed | None:
        """The next row, if it may start now that `run` has ended."""
        if (
            not isinstance(run.outcome, Succeeded)
            or run.on_finish is not None
            or run.kept is not None
            or self.is_stale(now)
        ):
            return None
        if not self._rows:
            self.is_over = True
            return None
        return self._rows.popleft()


class ChainRoom(NamedTuple):
    """How long chains may be, how many rows to take in all, and from how many lanes at least.

    If no rows are to be taken yet, then in `again_in` seconds.
    """

    longest: int
    rows: int
    abreast: int
    again_in: float = 0.0


def chain_room(load: KindLoad, waiting: int) -> ChainRoom | None:
    """What a kind could start while a read is fresh, if `waiting` rows of it are before that.

    None for kinds whose runs are held back by more than the number of runners, that take long, or
    whose rows may not be lost: they have no chains.
    """
    seconds = load.seconds_of_a_run
    if seconds is None or load.is_rated or load.is_frail:
        return None
    if load.pools or load.trips or load.gauges or load.many is not None:
        return None
    longest = min(LONGEST_CHAIN, int(FRESH_SECONDS * PLANNED_PART / max(seconds, 1e-6)))
    rows = int(load.per_second * FRESH_SECONDS * PLANNED_PART)
    # As many runs are under way at any moment as last from one start to the next.
    abreast = FEWEST_ABREAST + int(2 * load.per_second * seconds)
    if longest < 2 or rows < 2 * abreast:
        return None
    # A read costs the same for few rows as for many.
    too_many = waiting - int(rows * LEAST_LEFT_PART)
    if too_many > 0:
        return ChainRoom(longest, 0, abreast, again_in=too_many / load.per_second)
    return ChainRoom(longest, rows - waiting, abreast)


def rows_behind(runs: Iterable[Run]) -> int:
    """How many rows may still follow these runs."""
    now = time.monotonic()
    return sum([len(run.chain) for run in runs if run.chain and not run.chain.is_stale(now)])


def in_order(runs: Sequence[Run]) -> Sequence[Run]:
    """The runs without those that come after one whose outcome is neither written nor among them.

    Those wait, as locked rows do if the one before is locked.
    """
    kept: list[Run] = []
    among: set[int] = set()
    for run in runs:
        before = run.before
        if before is not None:
            if before.outcome is None:
                run.before = None
            elif id(before) not in among:
                run.is_locked = before.is_locked
                continue
        among.add(id(run))
        kept.append(run)
    return kept

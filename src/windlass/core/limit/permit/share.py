"""Permits: how the workers of a fleet share a limit of runs at once.

The limit is cut into permits. A worker starts a run only with a permit that it holds, and all
workers together never hold more than the limit. Who is the authority? The rows of the permits: a
worker changes its own row under a lock that all share. What it believes to hold is never more than
its row says: it lowers its own number before the row, and raises it after the row.

A worker holds as many permits as it can use, while no other waits. While another waits, each worker
is due its base: the limit, divided evenly among those who want more than that. What remains after
the division goes in turns, first to the worker that has waited longest. So with a limit below the
number of workers each of them gets its turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from windlass.clock import SECOND

# A worker that has not said for this long that it waits no longer does.
FRESH = 3 * SECOND


class Holding(NamedTuple):
    """The permits of one worker. Times are microseconds on the database's clock."""

    worker: int
    held: int
    wanted: int
    # Since when it waits for more; None if it does not.
    waits_since: int | None
    seen_at: int

    def is_waiting(self, now: int) -> bool:
        """Whether it lacks permits; a time in the future was before the clock stepped back."""
        is_fresh = abs(now - self.seen_at) <= FRESH
        return self.waits_since is not None and self.wanted > self.held and is_fresh


class PermitRequest(NamedTuple):
    """What a worker asks for: what it uses, what it could use, and since when it waits."""

    worker: int
    # It cannot hold less: as many runs are running, or may start at any moment.
    least: int
    wanted: int
    waits_since: int
    # Whether it may still keep a permit above its base while others wait.
    has_turn: bool = False


def fair_share(limit: int, mine: PermitRequest, others: Sequence[Holding], *, now: int) -> int:
    """How many permits a worker should hold now; what it uses is not considered."""
    free = max(0, limit - sum(other.held for other in others))
    waiting = [other for other in others if other.is_waiting(now)]
    if not waiting:
        return min(mine.wanted, free)
    demands = [other.wanted if other in waiting else other.held for other in others]
    base = level(limit, [mine.wanted, *demands])
    if mine.wanted <= base:
        return min(mine.wanted, free)
    promised = sum(_missing(other, base, mine) for other in waiting)
    has_extra = mine.has_turn or free - promised > base
    return min(base + int(has_extra), free)


def granted(limit: int, mine: PermitRequest, others: Sequence[Holding], *, now: int) -> int:
    """How many permits a worker holds after it asked; never more than others leave of the limit,
    except what it uses already."""
    return max(mine.least, fair_share(limit, mine, others, now=now))


def level(limit: int, demands: Iterable[int]) -> int:
    """How many each can have if all that want more get the same."""
    left, share = limit, 0
    ordered = sorted(demands)
    for index, demand in enumerate(ordered):
        share = left // (len(ordered) - index)
        if demand > share:
            return share
        left -= demand
    return share


def _missing(other: Holding, base: int, mine: PermitRequest) -> int:
    """What must be left for another worker that waits: its base, and one more if it is first."""
    assert other.waits_since is not None
    is_first = (other.waits_since, other.worker) < (mine.waits_since, mine.worker)
    return max(0, min(other.wanted, base + int(is_first)) - other.held)

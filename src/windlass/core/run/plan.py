"""Planned runs: fetched ahead of the moments that a rate reserved for their starts.

One read fetches the rows of the next second, and the pacer lets each start at its
moment. So a rate costs a few reads and commits a second, however many tasks it starts.

Runs of lists with `wait=` wait here for company, so that no runner looks at them in vain.
"""

from __future__ import annotations

import time
from bisect import insort
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from heapq import nsmallest
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from windlass.clock import SECOND
from windlass.value.period import HURRIED

if TYPE_CHECKING:
    from windlass.core.run.ready import KindLoad, Run


class StartsOfKind:
    """The planned runs of one kind in their order, and the moments at which the first may start.

    A moment belongs to no run: the first run in order starts at it. So a run that could not start
    yet, because its kind was at its limit or had no permit, is the first to start later.
    """

    def __init__(self, load: KindLoad) -> None:
        self.load = load
        self.runs: deque[Run] = deque()
        self.moments: deque[int] = deque()

    def put(self, run: Run, moment: int | None) -> None:
        self.runs.append(run)
        if moment is not None:
            self.put_moment(moment)
        self.count()

    def put_moment(self, moment: int) -> None:
        if not self.moments or moment >= self.moments[-1]:
            self.moments.append(moment)
        else:
            insort(self.moments, moment)

    def count(self) -> None:
        """Let the load know how many runs are planned, and how many of them have no moment."""
        self.load.planned = len(self.runs)
        self.load.lapsed = len(self.runs) - len(self.moments)

    def lose(self, now: int) -> None:
        """Lose the moments that it is too late for."""
        if self.load.is_rated:
            earliest = now - self.load.late_after
            while self.moments and self.moments[0] < earliest:
                self.moments.popleft()

    def start(self) -> Run:
        """Take the first run, at the first moment."""
        run = self.runs.popleft()
        run.start_at = self.moments.popleft()
        self.count()
        return run

    def keep(self, runs: Sequence[Run]) -> None:
        """Keep only these runs, with the first moments."""
        self.runs = deque(runs)
        while len(self.moments) > len(self.runs):
            self.moments.pop()
        self.count()

    def wake_at(self, now: int, most: int) -> list[int]:
        """The first moments; those that have come count when it is too late for them."""
        late = int(self.load.late_after) + 1
        first = islice(self.moments, most)
        return [moment if moment > now else max(now, moment + late) for moment in first]


class StartPlan:
    """The planned runs of a worker. Used under the lock of `InFlight`.

    A run starts at its moment, or a little later if it cannot start then. A moment that it is too
    late for is lost: then a run needs another one, before rows that are fetched later.
    """

    def __init__(self) -> None:
        self._kinds: dict[KindLoad, StartsOfKind] = {}
        # Whether a run could not start although its moment has come.
        self.is_waiting = False

    def __len__(self) -> int:
        return sum([len(each.runs) for each in self._kinds.values()])

    def __iter__(self) -> Iterator[Run]:
        for each in self._kinds.values():
            yield from each.runs

    def __bool__(self) -> bool:
        return True

    @property
    def needs_no_thread(self) -> bool:
        """Whether all runs are async, and each has its moment."""
        return all(
            each.load.kind.is_async and each.load.carrier is None and not each.load.lapsed
            for each in self._kinds.values()
            if each.runs
        )

    def put(self, run: Run) -> None:
        """Plan a run; one without a moment needs one."""
        self._plan_of(run.load).put(run, run.start_at)

    def moments_of(self, load: KindLoad) -> int:
        """How many moments the runs of a kind have."""
        each = self._kinds.get(load)
        return 0 if each is None else len(each.moments)

    def move(self, load: KindLoad, moments: Sequence[int], *, now: int, apart: bool) -> list[Run]:
        """Use other moments for a kind; returns runs that are left over, without one.

        Moments that have come stay. With `apart` another rate reserved a moment for each run as
        well, so none starts earlier than before.
        """
        each = self._plan_of(load)
        come = list(takewhile(lambda moment: moment <= now, each.moments))
        before = list(each.moments)[len(come) :]
        moved = [max(old, new) if apart else new for old, new in zip(before, moments, strict=False)]
        each.moments = deque(sorted([*come, *moved]))
        left = list(each.runs)[len(each.runs) - (len(before) - len(moved)) :]
        each.keep(list(each.runs)[: len(each.runs) - len(left)])
        return left

    def release(self, now: int, *, room: int) -> list[Run]:
        """Take up to `room` runs here whose moment has come; those that cannot start wait."""
        due: list[Run] = []
        waiting: Counter[KindLoad] = Counter()
        here = 0
        for each in self._in_turn(now):
            is_here = each.load.carrier is None
            if (is_here and here >= room) or not each.load.startable():
                waiting[each.load] += 1
            else:
                here += is_here
                # From now on it counts as one that waits for a runner.
                due.append(each.start())
        for load, count in waiting.items():
            load.want_permits(count)
        self.is_waiting = bool(waiting)
        return due

    def _in_turn(self, now: int) -> list[StartsOfKind]:
        """The kind of each moment that has come, in the order of the moments."""
        come: list[tuple[int, int, StartsOfKind]] = []
        for index, each in enumerate(self._kinds.values()):
            each.lose(now)
            each.count()
            come += [
                (moment, index, each)
                for moment in takewhile(lambda moment: moment <= now, each.moments)
            ]
        return [each for _, _, each in sorted(come, key=lambda found: found[:2])]

    def next_at(self, now: int, most: int) -> list[int]:
        """When the pacer has something to do next: up to `most` moments."""
        found = [moment for each in self._kinds.values() for moment in each.wake_at(now, most)]
        return nsmallest(most, found)

    def usable(self, load: KindLoad) -> int:
        """How many moments runs of a kind could use that have none, if runs end as lately."""
        able = load.startable_soon() - self.moments_of(load)
        return max(0, min(load.lapsed, able))

    def plan_again(self, load: KindLoad, moments: Sequence[int]) -> int:
        """Give runs that have no moment the next ones; returns how many were given."""
        each, given = self._plan_of(load), moments[: load.lapsed]
        for moment in given:
            each.put_moment(moment)
        each.count()
        return len(given)

    def drop(self, is_meant: Callable[[Run], bool]) -> list[Run]:
        """Remove and return all runs that are meant."""
        dropped: list[Run] = []
        for each in list(self._kinds.values()):
            gone = [run for run in each.runs if is_meant(run)]
            if gone:
                dropped += gone
                each.keep([run for run in each.runs if not is_meant(run)])
        return dropped

    def _plan_of(self, load: KindLoad) -> StartsOfKind:
        each = self._kinds.get(load)
        if each is None:
            each = self._kinds[load] = StartsOfKind(load)
        return each


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

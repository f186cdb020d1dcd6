"""Planned runs: fetched ahead of the moments that a rate reserved for their starts.

One read fetches the rows of the next second, and the pacer lets each start at its
moment. So a rate costs a few reads and commits a second, however many tasks it starts.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.core.run.ready import KindLoad, Run


class StartPlan:
    """The planned runs of a worker, by their moments. Used under the lock of `InFlight`.

    A run that could not start at its moment, because its kind was at its limit, has lost it. It
    waits for another moment, before the rows that are fetched later.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[int, int, Run]] = []
        self._lapsed: defaultdict[KindLoad, deque[Run]] = defaultdict(deque)

    def __len__(self) -> int:
        return len(self._runs) + sum(map(len, self._lapsed.values()))

    def __iter__(self) -> Iterator[Run]:
        for lapsed in self._lapsed.values():
            yield from lapsed
        for _, _, run in sorted(self._runs, key=lambda each: each[:2]):
            yield run

    def __bool__(self) -> bool:
        return True

    def put(self, run: Run) -> None:
        assert run.start_at is not None
        run.load.planned += 1
        heapq.heappush(self._runs, (run.start_at, run.number, run))

    def put_lapsed(self, run: Run) -> None:
        """Plan a run that has no moment yet."""
        run.load.planned += 1
        self._lapse(run)

    def _lapse(self, run: Run) -> None:
        self._lapsed[run.load].append(run)
        run.load.lapsed += 1

    def move(self, load: KindLoad, moments: Sequence[int], *, now: int, apart: bool) -> list[Run]:
        """Give the runs of a kind other moments; returns runs that are left over, without one.

        Runs whose moment has come keep it. With `apart` another rate reserved a moment for each
        run as well, so none starts earlier than before.
        """
        meant = [each for each in self._runs if each[2].load is load and each[0] > now]
        gone = set(map(id, meant))
        self._runs = [each for each in self._runs if id(each) not in gone]
        runs = [run for _, _, run in sorted(meant, key=lambda each: each[:2])]
        for run, moment in zip(runs, moments, strict=False):
            assert run.start_at is not None
            run.start_at = max(run.start_at, moment) if apart else moment
            self._runs.append((run.start_at, run.number, run))
        heapq.heapify(self._runs)
        load.planned -= len(runs[len(moments) :])
        return runs[len(moments) :]

    def release(self, now: int, *, room: int) -> list[Run]:
        """Take up to `room` runs whose moment has come; those that cannot start lose it."""
        due: list[Run] = []
        while self._runs and self._runs[0][0] <= now:
            moment, _, run = heapq.heappop(self._runs)
            load = run.load
            is_late = load.is_rated and moment < now - load.late_after
            if is_late or len(due) >= room or not load.startable():
                self._lapse(run)
                continue
            # From now on it counts as one that waits for a runner.
            load.planned -= 1
            due.append(run)
        return due

    def next_at(self, most: int) -> list[int]:
        """The first moments, up to `most`."""
        return [each[0] for each in heapq.nsmallest(most, self._runs, key=itemgetter(0))]

    def plan_again(self, load: KindLoad, moments: Sequence[int]) -> None:
        """Give runs that lost their moments the next ones."""
        lapsed = self._lapsed[load]
        load.lapsed -= len(moments)
        for moment in moments:
            run = lapsed.popleft()
            run.start_at = moment
            heapq.heappush(self._runs, (moment, run.number, run))

    def drop(self, is_meant: Callable[[Run], bool]) -> list[Run]:
        """Remove and return all runs that are meant."""
        dropped = [run for run in self if is_meant(run)]
        if not dropped:
            return []
        gone = set(map(id, dropped))
        self._runs = [each for each in self._runs if id(each[2]) not in gone]
        heapq.heapify(self._runs)
        for load, lapsed in self._lapsed.items():
            self._lapsed[load] = deque(run for run in lapsed if id(run) not in gone)
            load.lapsed = len(self._lapsed[load])
        for run in dropped:
            run.load.planned -= 1
        return dropped

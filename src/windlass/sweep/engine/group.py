"""Items that a worker claims in groups and runs beside the ranges of a sweep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from windlass.core.face import Workplace
from windlass.core.run.ready import KindLoad, Run
from windlass.core.task.kind import Kind
from windlass.sweep.engine.range_runner import ItemRun, Tally, WaitingItems
from windlass.sweep.engine.reader import SourceCalls


class ItemGroup(Protocol):
    """What was claimed together."""

    @property
    def worker(self) -> int: ...
    @property
    def runs(self) -> list[ItemRun]: ...


G = TypeVar("G", bound=ItemGroup)


@dataclass(eq=False)
class GroupRunner(ABC, Generic[G]):
    """Claims items in groups, one group at a time, runs them, and writes how they ended."""

    kind: Kind
    load: KindLoad
    workplace: Workplace
    calls: SourceCalls
    wake: Callable[[], None]
    # Whether items wait to be claimed.
    is_due: bool = True
    claiming: Future[G] | None = None
    group: G | None = None
    # The batch of the items that are claimed, or are being claimed.
    batch: int | None = None
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self.waiting = WaitingItems(self.workplace.site.clock)

    @property
    def is_busy(self) -> bool:
        """Whether it has claimed items, or is about to."""
        return self.claiming is not None or self.group is not None

    @property
    def has_some(self) -> bool:
        return bool(len(self.waiting))

    def step(self, worker: int) -> None:
        """Claim items if some are due, and write how those ended that have."""
        if self.claiming is not None and self.claiming.done():
            future, self.claiming = self.claiming, None
            found = future.result()
            if found.worker == worker:
                self._begin(found)
                self.waiting.ready.extend(found.runs)
        is_active = self.load.running or self.load.queued or self.waiting.ready
        is_stuck = self.workplace.until_idle and not (is_active or self.waiting.has_due)
        if is_stuck and self.group is not None:
            # A worker that ends when nothing is due does not wait for later tries.
            self._give_up_delayed(self.group)
        if self.group is not None:
            self._settle(self.group)
        if self.is_due and not self.is_busy and self.load.is_open:
            self.batch = batch = self.workplace.site.numbers.take()[0]
            self.claiming = self.calls.submit(self._claim, batch, worker)

    def issue(self, most: int) -> list[ItemRun]:
        return self.waiting.take(most)

    def taken_back(self, run: Run) -> None:
        self.waiting.put_back(run)

    def drop(self) -> None:
        """The worker was marked left: forget the items, which others may claim."""
        self.group = None
        self.waiting = WaitingItems(self.workplace.site.clock)

    @abstractmethod
    def landed(self, run: Run) -> None:
        """A run has ended and has its outcome."""

    @abstractmethod
    def _claim(self, batch: int, worker: int) -> G:
        """Claim a group; runs on a thread of the source."""

    @abstractmethod
    def _begin(self, found: G) -> None:
        """A group was claimed."""

    @abstractmethod
    def _give_up_delayed(self, found: G) -> None:
        """End the items that wait for later tries."""

    @abstractmethod
    def _settle(self, found: G) -> None:
        """Write how items ended, if it is time for that."""

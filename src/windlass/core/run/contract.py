"""What is around a run: who takes its outcome, what observes it, who runs it elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from windlass.core.run.ready import ReadyQueue, Run
    from windlass.core.trace.recorder import PageSpan
    from windlass.value.task import Claimed


class Keeper(Protocol):
    """Takes the outcomes of runs without a row of their own: items of a sweep.

    Both methods are called under the lock of `InFlight`.
    """

    def landed(self, run: Run) -> bool | None:
        """A run has ended and has its outcome. True if the finish must hear of it."""

    def taken_back(self, run: Run) -> None:
        """A queued run must not start now."""


class Observer(Protocol):
    """What is around the runs of a kind."""

    def call(self, run: Run) -> Any:
        """Call the handler of `run`: its result, or the awaitable of an async handler."""

    def page(self, task: Claimed, *, rows: int, runs: int) -> PageSpan | None:
        """The span of a page of a sweep; None if nothing is traced."""


class RunCarrier(Protocol):
    """Runs the handlers of some kinds elsewhere, and learns how they ended.

    It takes runs from its ready queue (`InFlight.start`) and records their outcomes
    (`InFlight.end_all`), as the coroutines and threads of the worker do for theirs.
    """

    @property
    def ready(self) -> ReadyQueue:
        """Where its runs wait until they may start."""

    # How many messages no consumer has taken, as was last measured; those of all workers.
    waiting: int


class Stopper(Protocol):
    """The runner of a run."""

    def stop(self, run: Run) -> None: ...

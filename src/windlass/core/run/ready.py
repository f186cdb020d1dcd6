"""Runs on their way through a worker, and the shelves on which they wait until they may begin."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from windlass.core.run.load import KindLoad
from windlass.core.task.kind import CRON_KEY
from windlass.database.connection import Connection
from windlass.value.outcome import Outcome
from windlass.value.task import Claimed


class State(Enum):
    """Where a run is in its life inside the worker."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"
    GONE = "gone"


class Keeper(Protocol):
    """Who takes the outcomes of runs that are no rows of their own: items of a sweep.

    Both are called under the lock of the rows in flight.
    """

    def landed(self, run: Run) -> None:
        """A run has ended; its outcome is there."""
        ...

    def taken_back(self, run: Run) -> None:
        """A run that had not begun is not to begin now."""
        ...


class Stopper(Protocol):
    """Who runs a run, and can be told to stop it."""

    def stop(self, run: Run) -> None: ...


class Run:
    """One claimed row on its way through the worker."""

    __slots__ = (
        "began",
        "callback_tries",
        "deadline",
        "is_locked",
        "is_poison",
        "is_probe",
        "is_visit",
        "keeper",
        "kept",
        "kind",
        "leaves_nothing",
        "load",
        "milliseconds",
        "number",
        "on_finish",
        "outcome",
        "refusal",
        "runner",
        "state",
        "task",
        "turns",
    )

    def __init__(self, task: Claimed, load: KindLoad) -> None:
        self.number = task.id
        self.task = task
        self.load = load
        self.kind = load.kind
        self.state = State.QUEUED
        self.began = 0.0
        self.deadline: float | None = None
        self.milliseconds = 0.0
        self.outcome: Outcome | None = None
        self.on_finish: list[Callable[[Connection], None]] | None = None
        # What a face keeps with it, by the type of that.
        self.kept: dict[type, Any] | None = None
        # The error that it ends with instead of being called.
        self.refusal: Exception | None = None
        self.callback_tries = 0
        self.runner: Stopper | None = None
        self.is_poison = False
        # Whether somebody else held its row when its outcome was to be written.
        self.is_locked = False
        # Whether an open breaker waits for how this run ends.
        self.is_probe = False
        # Who takes its outcome instead of the finish.
        self.keeper: Keeper | None = None
        # Whether its row stays and waits for its next turn: of a schedule, or of a rolling kind.
        self.turns = load.is_rolling or (load.is_scheduled and task.task_key == CRON_KEY)
        # Whether a plain success makes of its row what it makes of all items of the kind.
        self.is_visit = load.is_rolling and task.flow_id is None
        # Whether a plain success deletes its row.
        forgets = load.forgets if task.task_key is None else load.forgets_named
        self.leaves_nothing = forgets and not self.turns and task.flow_id is None

    @property
    def key(self) -> str | None:
        """By what its caller knows it."""
        return self.task.task_key

    def keep(self, what: object) -> None:
        """Keep something with the run, for the face that writes it down with its outcome."""
        self.kept = {**(self.kept or {}), type(what): what}

    def call(self) -> Any:
        """Call the handler."""
        if self.refusal is not None:
            raise self.refusal
        return self.kind.call(self.task, turns=self.turns)


# Priority, lowest number first; whether it has no rate, as moments to start at do not wait; kind.
Lane = tuple[int, bool, str]


class ReadyQueue:
    """Queued runs of the async or of the sync kinds, highest priority first."""

    def __init__(self) -> None:
        self.queues: dict[Lane, deque[Run]] = {}
        self.order: list[Lane] = []
        self.queued = 0

    def put(self, run: Run) -> None:
        lane = (-run.task.priority, not run.load.is_rated, run.kind.name)
        queue = self.queues.get(lane)
        if queue is None:
            queue = self.queues[lane] = deque()
            insort(self.order, lane, key=lambda each: each[:2])
        queue.append(run)
        self.queued += 1

    def take(self) -> Run | None:
        """The first run whose kind may have one more running."""
        for index, lane in enumerate(self.order):
            queue = self.queues[lane]
            load = queue[0].load
            if load.running >= load.limit or not load.is_open or load.is_tripped:
                continue
            if load.budget is not None and not load.budget.take(load.holder, lane[2], load.limit):
                continue
            run = queue.popleft()
            self.queued -= 1
            if not queue:
                del self.queues[lane]
                del self.order[index]
            elif len(self.order) > 1:
                self._rotate(index)
            return run
        return None

    def _rotate(self, index: int) -> None:
        """Let the other lanes of the same rank come first the next time."""
        lane = self.order.pop(index)
        while index < len(self.order) and self.order[index][:2] == lane[:2]:
            index += 1
        self.order.insert(index, lane)

    def drop(self, is_wanted: Callable[[Run], bool]) -> list[Run]:
        """Take out all runs of which that is so."""
        dropped: list[Run] = []
        for lane, queue in list(self.queues.items()):
            gone = [run for run in queue if is_wanted(run)]
            if not gone:
                continue
            dropped += gone
            if len(gone) == len(queue):
                del self.queues[lane]
                self.order.remove(lane)
            else:
                self.queues[lane] = deque(run for run in queue if not is_wanted(run))
        self.queued -= len(dropped)
        return dropped

"""Runs, and the queues where they wait until they may start."""

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
    """The state of a run in the worker."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"
    GONE = "gone"


class Keeper(Protocol):
    """Takes the outcomes of runs without a row of their own: items of a sweep.

    Both methods are called under the lock of `InFlight`.
    """

    def landed(self, run: Run) -> None:
        """A run has ended and has its outcome."""

    def taken_back(self, run: Run) -> None:
        """A queued run must not start now."""


class Stopper(Protocol):
    """The runner of a run."""

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
        # What faces keep with the run, by type.
        self.kept: dict[type, Any] | None = None
        # The error to fail with, instead of a call of the handler.
        self.refusal: Exception | None = None
        self.callback_tries = 0
        self.runner: Stopper | None = None
        self.is_poison = False
        # Whether another transaction had locked its row when its outcome was to be written.
        self.is_locked = False
        # Whether the outcome decides about an open breaker.
        self.is_probe = False
        # Takes the outcome in place of the finish.
        self.keeper: Keeper | None = None
        # Whether its row stays for the next turn, as for a cron or a rolling kind.
        self.turns = load.is_rolling or (load.is_scheduled and task.task_key == CRON_KEY)
        # Whether a plain success changes its row in the same way as all rows of the kind.
        self.is_visit = load.is_rolling and task.flow_id is None
        # Whether a plain success deletes its row.
        forgets = load.forgets if task.task_key is None else load.forgets_named
        self.leaves_nothing = forgets and not self.turns and task.flow_id is None

    @property
    def key(self) -> str | None:
        return self.task.task_key

    def keep(self, what: object) -> None:
        """Keep something with the run; its face writes it with the outcome."""
        self.kept = {**(self.kept or {}), type(what): what}

    def call(self) -> Any:
        if self.refusal is not None:
            raise self.refusal
        return self.kind.call(self.task, turns=self.turns)


# Negated priority; whether the kind has no rate (a rate's moments pass, so those go first); kind.
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
        """The first run whose kind may start one more."""
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
        """Move the lane behind the other lanes of its rank."""
        lane = self.order.pop(index)
        while index < len(self.order) and self.order[index][:2] == lane[:2]:
            index += 1
        self.order.insert(index, lane)

    def drop(self, is_meant: Callable[[Run], bool]) -> list[Run]:
        """Remove and return all runs that are meant."""
        dropped: list[Run] = []
        for lane, queue in list(self.queues.items()):
            gone = [run for run in queue if is_meant(run)]
            if not gone:
                continue
            dropped += gone
            if len(gone) == len(queue):
                del self.queues[lane]
                self.order.remove(lane)
            else:
                self.queues[lane] = deque(run for run in queue if not is_meant(run))
        self.queued -= len(dropped)
        return dropped

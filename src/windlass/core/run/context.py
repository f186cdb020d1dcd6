"""What a handler can ask about its run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from windlass.clock import to_datetime
from windlass.core.run.ready import Run
from windlass.core.task.current import current
from windlass.database.connection import Connection
from windlass.errors import NoContext
from windlass.value.cron import read_turn


class RunContext:
    """The run of the calling handler."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def task_id(self) -> int:
        """The id of the task; in a sweep, the id of the range."""
        return self._run.task.id

    @property
    def kind(self) -> str:
        """The kind of the task."""
        return self._run.kind.name

    @property
    def key(self) -> str | None:
        """The task's key, if it has one; in a sweep, the item's key as text."""
        return self._run.key

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1. Attempts that were lost with a worker count."""
        return self._run.task.attempt

    @property
    def fence(self) -> int:
        """A number that grows with every attempt of this task.

        Store it with what you write to another system, and refuse writes with a smaller number.
        Then a handler whose worker was marked dead cannot overwrite a later attempt.
        """
        return self._run.task.started_at

    @property
    def due_at(self) -> datetime:
        """When the task was due; for a cron, the time of this turn."""
        task = self._run.task
        turn = read_turn(task.payload) if self._run.turns else None
        return to_datetime(turn or task.due_at)

    @property
    def deadline(self) -> float | None:
        """When the run times out, on `time.monotonic()`; None without a time-out."""
        return self._run.deadline

    def on_finish(self, write: Callable[[Connection], None]) -> None:
        """Call `write(connection)` in the transaction that records the success.

        What it writes to the same database happens exactly once. If it raises, or takes longer than
        the `finish_timeout` of the kind, the run fails.
        """
        if self._run.keeper is not None:
            raise NoContext(
                "on_finish() works in tasks that a worker runs itself: the outcomes of sweep items "
                "and of carried tasks are written elsewhere"
            )
        if self._run.on_finish is None:
            self._run.on_finish = []
        self._run.on_finish.append(write)


def current_run() -> Run:
    run = current.get()
    if run is None:
        raise NoContext("context() was called outside a handler; call it in a running task")
    return run

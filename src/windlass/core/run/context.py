"""What a handler may know of the run it is in, and ask of it."""

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
    """The run that the calling handler is in, as the kernel knows it."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def task_id(self) -> int:
        """The id of the task; in a sweep, that of the range."""
        return self._run.task.id

    @property
    def kind(self) -> str:
        """The kind of the task."""
        return self._run.kind.name

    @property
    def key(self) -> str | None:
        """The key it was enqueued under, if any; in a sweep, that of the item as text."""
        return self._run.key

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1; one that was lost with its worker counts."""
        return self._run.task.attempt

    @property
    def fence(self) -> int:
        """A number that is larger for every later attempt of this task.

        Write it beside what you write elsewhere, and let that place refuse a smaller one: then a
        handler that was given up for dead cannot overwrite its successor.
        """
        return self._run.task.started_at

    @property
    def due_at(self) -> datetime:
        """When the task was due: for a cron, the turn that this run is."""
        task = self._run.task
        turn = read_turn(task.payload) if self._run.turns else None
        return to_datetime(turn or task.due_at)

    @property
    def deadline(self) -> float | None:
        """When its time is out, on `time.monotonic()`; None without a time-out."""
        return self._run.deadline

    def on_finish(self, write: Callable[[Connection], None]) -> None:
        """Have `write(connection)` called in the transaction that records the success.

        What it writes to the same database happens exactly once. If it raises, the run fails.
        """
        if self._run.keeper is not None:
            raise NoContext(
                "on_finish() belongs to a task: items of a sweep are written down together, later"
            )
        if self._run.on_finish is None:
            self._run.on_finish = []
        self._run.on_finish.append(write)


def current_run() -> Run:
    """The run that the calling handler is in."""
    run = current.get()
    if run is None:
        raise NoContext("context() was called outside a handler; it belongs to a running task")
    return run

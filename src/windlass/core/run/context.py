"""What a handler may know of the run it is in, and ask of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection

from windlass.clock import to_datetime
from windlass.core.run.ready import Run
from windlass.core.task.current import current
from windlass.errors import NoContext
from windlass.external.model import Submission
from windlass.flow.engine import Growing, growing
from windlass.value.cron import read_turn


class Context:
    """The run that the calling handler is in."""

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

    @property
    def submission(self) -> str:
        """By what an external system knows this submission: the same if it is repeated.

        It is the id of the task, with a number behind it after an earlier submission has failed.
        """
        return self._submitting.name

    @property
    def secret(self) -> str:
        """What an external system must send along when it calls back about this submission."""
        return self._submitting.secret

    @property
    def _submitting(self) -> Submission:
        if self._run.submission is None:
            raise NoContext("this belongs to submit() of an external system")
        return self._run.submission

    @property
    def flow(self) -> Growing:
        """Draws nodes after the one that is running; they are written with its success."""
        return growing(self._run)

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


def context() -> Context:
    """The run that the calling handler is in."""
    run = current.get()
    if run is None:
        raise NoContext("context() was called outside a handler; it belongs to a running task")
    return Context(run)

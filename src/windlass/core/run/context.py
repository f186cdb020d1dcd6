"""What a handler can ask about its run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from windlass.clock import to_datetime
from windlass.core.run.many.together import ListedRun, is_list
from windlass.core.run.ready import Run
from windlass.core.task.current import current
from windlass.core.task.progress import report
from windlass.core.task.sweep_run import GivenRun
from windlass.database.connection import Connection
from windlass.errors import NoContext
from windlass.value.cron import read_turn


class RunContext:
    """The run of the calling handler."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def items(self) -> Sequence[RunContext]:
        """The tasks that this call has, in the order of the handler's list; each like a context.

        A handler that takes no lists has one.
        """
        run = self._run
        return [RunContext(item) for item in run.given_items] if is_list(run) else [self]

    @property
    def id(self) -> int:
        """The id of the task, as `task_id`."""
        return self.task_id

    @property
    def task_id(self) -> int:
        """The id of the task; in a sweep, the id of the range."""
        return self._one("task_id").task.id

    @property
    def kind(self) -> str:
        """The kind of the task."""
        return self._run.kind.name

    @property
    def key(self) -> str | None:
        """The task's key, if it has one; in a sweep, the item's key as text."""
        return self._one("key").key

    @property
    def sweep_run(self) -> GivenRun | None:
        """In a sweep, the run that has this item: its number and the `key` that its start got.

        None in rounds of the source that the sweep declares, and elsewhere.
        """
        found: GivenRun | None = (self._run.kept or {}).get(GivenRun)
        return found

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1. Attempts that were lost with a worker count."""
        return self._one("attempt").task.attempt

    @property
    def fence(self) -> int:
        """A number that grows with every attempt of this task.

        Store it with what you write to another system, and refuse writes with a smaller number.
        Then a handler whose worker was marked dead cannot overwrite a later attempt.
        """
        return self._one("fence").task.started_at

    @property
    def due_at(self) -> datetime:
        """When the task was due; for a cron, the time of this turn."""
        task = self._one("due_at").task
        turn = read_turn(task.payload) if self._run.turns else None
        return to_datetime(turn or task.due_at)

    @property
    def deadline(self) -> float | None:
        """When the run times out, on `time.monotonic()`; None without a time-out."""
        run = self._run
        if isinstance(run, ListedRun) and run.call_run is not None:
            run = run.call_run
        return run.deadline

    def progress(self, done: int, total: int | None = None, note: str = "") -> None:
        """Tell how far the task is: `done` of `total`, and what is being done.

        Call it as often as you like: it is written about once a second, and shown while the task
        runs. In sweeps, and on consumers of a carried kind, it is not shown.
        """
        report(self._one("progress"), done, total, note)

    def on_finish(self, write: Callable[[Connection], None]) -> None:
        """Call `write(connection)` in the transaction that records the success.

        What it writes to the same database happens exactly once. If it raises, or takes longer than
        the `finish_timeout` of the kind, the run fails.
        """
        run = self._one("on_finish")
        if run.keeper is not None:
            raise NoContext(
                "on_finish() works in tasks that a worker runs itself: the outcomes of sweep items "
                "and of carried tasks are written elsewhere"
            )
        if run.on_finish is None:
            run.on_finish = []
        run.on_finish.append(write)

    def _one(self, asked: str) -> Run:
        """The run of one task; a list has several."""
        run = self._here(asked)
        if is_list(run):
            raise NoContext(
                f"context().{asked} is of one task, and this call has a list of "
                f"{len(run.given_items)}; read it from each of context().items"
            )
        return run

    def _here(self, asked: str) -> Run:
        """The run, unless the handler is in a process where this does not work."""
        if asked in self._run.refused:
            raise NoContext(self._run.refused[asked])
        return self._run


def current_run() -> Run:
    run = current.get()
    if run is None:
        raise NoContext("context() was called outside a handler; call it in a running task")
    return run

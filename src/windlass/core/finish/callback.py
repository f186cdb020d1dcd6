"""Runs with `on_finish`: each is written by itself, and its callbacks may undo the transaction.

The callbacks are user code in an open transaction, so they have a time limit, and threads of their
own: other outcomes do not wait for them. A callback that is late cannot be stopped. Its transaction
is rolled back and its connection closed, so nothing that it writes afterwards is committed.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait

from windlass import telemetry
from windlass.core.run.in_flight import InFlight
from windlass.core.run.ready import Run, failure
from windlass.core.task.current import current
from windlass.database.connection import Connection
from windlass.database.database import BAD_VALUES, Database, first_line
from windlass.value.duration import format_duration
from windlass.value.outcome import Expanded, Submitted, Succeeded
from windlass.value.task import Claimed
from windlass.value.twin import in_background

MOST_AT_ONCE = 4
MOST_TRIES = 3
# Where one transaction writes at a time, a slow one is followed by a pause in which others write.
SLOW_SECONDS = 0.1
PAUSE_SECONDS = 0.2

Save = Callable[[Run, Callable[[Connection], None]], set[int]]


class CallbackFailed(Exception):
    """An `on_finish` callback raised or was late; its transaction was rolled back."""


def has_callbacks(run: Run) -> bool:
    """Whether the outcome of `run` is written with callbacks."""
    return bool(run.on_finish) and isinstance(run.outcome, Succeeded | Expanded | Submitted)


class Callbacks:
    """Writes runs with callbacks on a few threads, which end when there are no more.

    `save` writes the outcome of a run, calls a function in that transaction, and returns the
    accepted ids; `report` says how it ended. A run whose callbacks failed ends like any other that
    failed: it is put back, and `on_failed` tells the finish.
    """

    def __init__(
        self,
        database: Database,
        in_flight: InFlight,
        *,
        save: Save,
        report: Callable[[Run, set[int]], None],
        on_failed: Callable[[], None],
    ) -> None:
        self._database = database
        self._in_flight = in_flight
        self._save = save
        self._report = report
        self._on_failed = on_failed
        self._most = 1 if database.dialect.is_embedded else MOST_AT_ONCE
        self._condition = threading.Condition()
        self._waiting: deque[Run] = deque()
        self._threads = 0
        self._problem: Exception | None = None
        self._abandoned: list[Future[None]] = []

    def add(self, runs: Sequence[Run]) -> None:
        """Write `runs` soon, on other threads."""
        with self._condition:
            self._waiting.extend(runs)
            while self._threads < min(self._most, len(self._waiting)):
                self._threads += 1
                threading.Thread(target=self._work, name="windlass-callback", daemon=True).start()

    def join(self) -> None:
        """Wait until all were written or put back; raises the error of one that was put back."""
        with self._condition:
            self._condition.wait_for(lambda: not self._threads)
            problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def _work(self) -> None:
        while True:
            with self._condition:
                if not self._waiting:
                    self._threads -= 1
                    self._condition.notify_all()
                    return
                run = self._waiting.popleft()
            began = time.monotonic()
            self._write(run)
            is_slow = time.monotonic() - began > SLOW_SECONDS
            if is_slow and self._database.dialect.is_embedded:
                time.sleep(PAUSE_SECONDS)

    def _write(self, run: Run) -> None:
        try:
            error = self._problem_of(run)
        except Exception as problem:
            # The outcome waits, as others do while the database is away.
            self._problem = problem
            telemetry.emit("database.failed", loop="finish", error=first_line(problem))
            self._in_flight.put_back([run])
            return
        if error is None:
            self._in_flight.written([run])
            return
        run.on_finish = None
        run.outcome = failure(run, error)
        self._in_flight.put_back([run])
        self._on_failed()

    def _problem_of(self, run: Run) -> BaseException | None:
        """Write the run; returns the error of its callbacks, and raises those of the database."""
        before = run.callback_tries
        while True:
            task = run.task
            try:
                accepted = self._save(run, lambda connection: self._call(run, connection))
            except (CallbackFailed, *BAD_VALUES) as failed:
                return failed.__cause__ or failed
            except Exception as problem:
                # The callbacks ran several times, but the transaction never committed.
                if run.callback_tries == before or run.callback_tries < MOST_TRIES:
                    raise
                return problem
            if accepted or not self._was_marked(run, task):
                self._report(run, accepted)
                return None

    def _was_marked(self, run: Run, task: Claimed) -> bool:
        """Whether the claim of the row was written down meanwhile: it is ours as before."""
        with self._in_flight.writing:
            return run.task is not task

    def _call(self, run: Run, connection: Connection) -> None:
        run.callback_tries += 1
        callbacks = run.on_finish or []

        def call() -> None:
            # What a callback logs belongs to its task.
            current.set(run)
            with self._database.dialect.lent(connection):
                for callback in callbacks:
                    callback(connection)

        called = in_background(call, "on-finish")
        wait([called], timeout=run.kind.finish_timeout / 1e6)
        if not called.done():
            self._abandon(run, called, connection)
            limit = format_duration(run.kind.finish_timeout)
            raise CallbackFailed from TimeoutError(f"on_finish did not end within {limit}")
        problem = called.exception()
        if problem is not None:
            if isinstance(problem, Exception) and self._database.can_retry(problem):
                raise problem
            raise CallbackFailed from problem

    def _abandon(self, run: Run, called: Future[None], connection: Connection) -> None:
        try:
            self._database.dialect.abort(connection)
        except Exception as problem:
            # The server may have ended the connection first.
            telemetry.log.debug("abort: %s", first_line(problem))
        connection.invalidate()
        self._abandoned = [*(each for each in self._abandoned if not each.done()), called]
        telemetry.emit(
            "task.abandoned", task=run.number, kind=run.kind.name, threads=len(self._abandoned)
        )

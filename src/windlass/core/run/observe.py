"""What is around the runs of a kind: middlewares, the log that is kept, and debug lines.

A kind without any of them has no observer, and its runs cost nothing more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windlass import telemetry
from windlass.core.run.log import RunLog, keep_records
from windlass.core.run.ready import Run
from windlass.core.task.hook import (
    Hooks,
    Middleware,
    MiddlewareContext,
    acall_through,
    call_through,
)
from windlass.core.task.kind import Kind
from windlass.value.outcome import describe
from windlass.value.task import RESERVED, Call


def observer_of(kind: Kind, hooks: Hooks) -> RunObserver | None:
    """What is around the runs of `kind` now; None if that is nothing."""
    middlewares = () if kind.name.startswith(RESERVED) else tuple(hooks.middlewares)
    logs_runs = telemetry.log.isEnabledFor(logging.DEBUG)
    if kind.logs:
        keep_records()
    if not (middlewares or kind.logs or logs_runs):
        return None
    return RunObserver(middlewares, kind.logs, logs_runs=logs_runs)


@dataclass(frozen=True)
class RunObserver:
    """What is around each run of one kind."""

    middlewares: Sequence[Middleware]
    # How many records are kept; 0: none.
    kept_records: int
    logs_runs: bool

    def call(self, run: Run) -> Any:
        """Call the handler of `run`: its result, or the coroutine of an async handler."""
        return self._acall(run) if run.kind.is_async else self._call(run)

    def _call(self, run: Run) -> Any:
        telling = self._begin(run)
        with telling:
            args, kwargs = run.given()
            return call_through(
                self.middlewares,
                _context(run, args, kwargs),
                lambda: run.kind.function(*args, **kwargs),
                loop=run.load.loop,
            )

    async def _acall(self, run: Run) -> Any:
        telling = self._begin(run)
        with telling:
            args, kwargs = run.given()
            return await acall_through(
                self.middlewares,
                _context(run, args, kwargs),
                lambda: run.kind.function(*args, **kwargs),
            )

    def _begin(self, run: Run) -> _Telling:
        if self.kept_records:
            run.log = RunLog(self.kept_records)
        return _Telling(run if self.logs_runs else None)


class _Telling:
    """Logs when a run begins and when it ends, if `run` is given."""

    def __init__(self, run: Run | None) -> None:
        self._run = run
        self._began = 0.0

    def __enter__(self) -> None:
        if self._run is not None:
            self._began = time.monotonic()
            attempt = self._run.task.attempt
            telemetry.emit("task.started", **_facts(self._run), attempt=attempt)

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if self._run is not None:
            telemetry.emit(
                "task.ended",
                **_facts(self._run),
                milliseconds=(time.monotonic() - self._began) * 1_000,
                error=None if error is None else describe(error)[0],
            )


def _facts(run: Run) -> dict[str, object]:
    return {"task": run.task.id, "kind": run.kind.name, "key": run.key}


def _context(run: Run, args: tuple[object, ...], kwargs: Any) -> MiddlewareContext:
    return MiddlewareContext(
        stage="run",
        kind=run.kind.name,
        calls=(Call(args, kwargs, run.key),),
        task_id=run.task.id,
        attempt=run.task.attempt,
    )

"""What is around the runs of a kind: spans, middlewares, the log that is kept, and debug lines.

A kind without any of them has no observer, and its runs cost nothing more.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windlass import telemetry
from windlass.core.run.log import RunLog, keep_records
from windlass.core.run.many.together import is_list
from windlass.core.run.ready import Run, State, failure, late
from windlass.core.task.hook import (
    Hooks,
    Middleware,
    MiddlewareContext,
    acall_through,
    call_through,
)
from windlass.core.task.kind import Kind
from windlass.core.trace.provider import recorder
from windlass.value.outcome import Outcome, describe
from windlass.value.task import RESERVED, Claimed

if TYPE_CHECKING:
    from windlass.core.trace.recorder import PageSpan, Processing, Recorder


def observer_of(kind: Kind, hooks: Hooks) -> RunObserver | None:
    """What is around the runs of `kind` now; None if that is nothing."""
    is_own = kind.name.startswith(RESERVED)
    middlewares = () if is_own else tuple(hooks.middlewares)
    logs_runs = telemetry.log.isEnabledFor(logging.DEBUG)
    traced = None if is_own else recorder()
    if kind.logs:
        keep_records()
    if not (middlewares or kind.logs or logs_runs or traced):
        return None
    return RunObserver(kind, middlewares, traced, logs_runs=logs_runs)


@dataclass(frozen=True)
class RunObserver:
    """What is around each run of one kind."""

    kind: Kind
    middlewares: Sequence[Middleware]
    recorder: Recorder | None
    logs_runs: bool

    def call(self, run: Run) -> Any:
        """Call the handler of `run`: its result, or the coroutine of an async handler."""
        if self.recorder is None:
            return self._acall(run) if run.kind.is_async else self._call(run)
        spanned = self._span(run, self.recorder)
        return self._atraced(run, spanned) if run.kind.is_async else self._traced(run, spanned)

    def page(self, task: Claimed, *, rows: int, runs: int) -> PageSpan | None:
        """The span of a page of a sweep; None if nothing is traced."""
        traced = self.recorder
        return None if traced is None else traced.page(self.kind.name, task, rows=rows, runs=runs)

    def _span(self, run: Run, traced: Recorder) -> Processing:
        name = self.kind.name
        if run.page is not None:
            return traced.item(name, run.page)
        if is_list(run):
            return traced.together(name, [item.task for item in run.items])
        return traced.process(name, run.task, key=run.key, is_item=not self.kind.has_rows)

    def _traced(self, run: Run, spanned: Processing) -> Outcome:
        try:
            with spanned:
                try:
                    outcome = run.succeeded(self._call(run))
                except Exception as error:
                    outcome = failure(run, error)
                except BaseException as error:
                    _tell(spanned, run, failure(run, error))
                    raise
                _tell(spanned, run, outcome)
            return outcome
        finally:
            _left_page(run)

    async def _atraced(self, run: Run, spanned: Processing) -> Outcome:
        try:
            with spanned:
                try:
                    outcome = run.succeeded(await self._acall(run))
                except Exception as error:
                    outcome = failure(run, error)
                except BaseException as error:
                    _tell(spanned, run, None if _is_cancelled() else failure(run, error))
                    raise
                _tell(spanned, run, outcome)
            return outcome
        finally:
            _left_page(run)

    def _call(self, run: Run) -> Any:
        telling = self._begin(run)
        with telling:
            args, kwargs = run.given()
            if not self.middlewares:
                return run.load.handler(*args, **kwargs)
            return call_through(
                self.middlewares,
                _context(run, args, kwargs),
                lambda: run.load.handler(*args, **kwargs),
                loop=run.load.loop,
            )

    async def _acall(self, run: Run) -> Any:
        telling = self._begin(run)
        with telling:
            args, kwargs = run.given()
            if not self.middlewares:
                return await run.load.handler(*args, **kwargs)
            return await acall_through(
                self.middlewares,
                _context(run, args, kwargs),
                lambda: run.load.handler(*args, **kwargs),
            )

    def _begin(self, run: Run) -> _Telling:
        if self.kind.logs:
            run.log = RunLog(self.kind.logs)
        return _Telling(run if self.logs_runs else None)


def _tell(spanned: Processing, run: Run, outcome: Outcome | None) -> None:
    """Tell the span how the run ends; one that timed out or was stopped has ended already."""
    if run.state is State.GONE:
        spanned.ends(None, None)
    elif run.state is State.ENDED:
        # What it ended with may be written and forgotten.
        error = run.error or late(run)
        spanned.ends(run.outcome or failure(run, error), error)
    else:
        spanned.ends(outcome, run.error)


def _left_page(run: Run) -> None:
    """A run of a page counts there when it has ended once; a retry has its own span."""
    page, run.page = run.page, None
    if page is not None:
        page.landed()


def _is_cancelled() -> bool:
    """Whether the running coroutine is being cancelled, and not only what it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


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
        calls=run.given_calls(args, kwargs),
        task_id=None if is_list(run) else run.task.id,
        attempt=None if is_list(run) else run.task.attempt,
    )

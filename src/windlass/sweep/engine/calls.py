"""Calls to the source of one sweep, on threads of their own because a source may be slow."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from windlass.core.task.kind import Kind
from windlass.errors import BadKey
from windlass.source.ask import CheckedSource, SourceFailed
from windlass.sweep.engine.alert import alert_of_trouble
from windlass.sweep.engine.tools import Tools
from windlass.sweep.model import terms_of
from windlass.sweep.store import sweep as store

T = TypeVar("T")

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0


class SourceCalls:
    """Calls one source, and waits after its errors: longer after each failed attempt."""

    def __init__(self, kind: Kind, tools: Tools) -> None:
        self.source = CheckedSource(terms_of(kind).source)
        self._name = kind.name
        self._tools = tools
        self._threads = ThreadPoolExecutor(tools.threads, thread_name_prefix="windlass-source")
        # Why the sweep cannot continue, as its row says.
        self.problem: Exception | None = None
        self._last_failed = False
        # When the source may be called again.
        self.retry_at = 0.0
        self._pause = FIRST_PAUSE

    def submit(self, call: Callable[..., T], *given: Any) -> Future[T]:
        """Make a call on another thread."""
        return self._threads.submit(call, *given)

    def result(self, future: Future[T]) -> T | None:
        """What a call returned; None if the source failed, which is reported.

        Any other error is one of our own database: the loop reports it and tries again.
        """
        try:
            found = future.result()
        except (SourceFailed, BadKey) as failed:
            problem = failed.__cause__ if isinstance(failed, SourceFailed) else failed
            assert isinstance(problem, Exception)
            self.report(problem)
            self._last_failed = True
            # The pause grows with each attempt, not with each range that failed in it.
            now = time.monotonic()
            if now >= self.retry_at:
                self.retry_at = now + self._pause
                self._pause = min(2 * self._pause, LONGEST_PAUSE)
            return None
        self._last_failed = False
        return found

    def report(self, problem: Exception) -> None:
        """Say in the row of the sweep why it cannot continue."""
        self.problem = problem
        alert_of_trouble(self._tools, self._name, problem)

    def report_recovery(self) -> None:
        """Clear the error in the row of the sweep, if the source works again."""
        if self.problem is None or self._last_failed:
            return
        self.problem, self._pause = None, FIRST_PAUSE
        self._tools.database.write(
            lambda connection: store.note_error(connection, self._name, None)
        )

    def close(self) -> None:
        """Let the threads end; it does not wait for one that hangs."""
        self._threads.shutdown(wait=False, cancel_futures=True)

"""Lets an external system stop tasks that were cancelled, skipped or have timed out."""

from __future__ import annotations

from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.face import Site
from windlass.core.run.call import Calls
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.external import store
from windlass.external.model import Submission, terms_of

AT_ONCE = 8


class StopCalls:
    """Calls `cancel` of one external system."""

    def __init__(self, kind: Kind, site: Site) -> None:
        self._kind = kind.name
        self._terms = terms_of(kind)
        self._database = site.database
        self._clock = site.clock
        self._calls = Calls(terms_of(kind).call_timeout / SECOND)

    def call_some(self) -> int:
        """Let the system stop a few tasks; how many."""
        database, kind, now = self._database, self._kind, self._clock.now()
        if not database.read(lambda connection: store.has_stops(connection, kind, now=now)):
            return 0
        until = now + 2 * self._terms.call_timeout
        taken = database.write(
            lambda connection: store.take_stops(
                connection, kind, now=now, until=until, limit=AT_ONCE
            ),
            tries=2,
        )
        if taken:
            self._stop(taken)
        return len(taken)

    def _stop(self, taken: list[Submission]) -> None:
        done: list[Submission] = []
        failed: list[Submission] = []
        try:
            handles = [str(each.handle) for each in taken]
            answers = self._calls.each(self._terms.system.cancel, handles)
        except TimeoutError as problem:
            answers = [problem] * len(taken)
        for each, answer in zip(taken, answers, strict=True):
            (failed if isinstance(answer, Exception) else done).append(each)
            if isinstance(answer, Exception):
                error = first_characters(answer)
                telemetry.emit("external.uncancelled", handle=each.handle, error=error)
        later = self._clock.now() + self._terms.pause_after_error(2)

        def work(connection: Connection) -> None:
            if done:
                store.stopped(connection, done)
            if failed:
                store.put_off_stops(connection, failed, until=later)

        self._database.write(work, tries=2)


def first_characters(problem: Exception) -> str:
    """An error for an event, not too long."""
    return f"{type(problem).__name__}: {problem}"[:300]

"""Starts the rounds of one sweep when they are due."""

from __future__ import annotations

import time
from concurrent.futures import Future

from windlass.core.task.kind import Kind
from windlass.source.contract import name_of
from windlass.sweep.engine.calls import SourceCalls
from windlass.sweep.engine.round import open_round, take_over
from windlass.sweep.engine.tools import Tools
from windlass.sweep.model import SweepRow, described, has_same_keys, may_begin_at, terms_of
from windlass.sweep.store import range as ranges
from windlass.sweep.store import sweep as store

# A sweep over a source with other keys is taken over after this time without a worker.
OTHERS_SECONDS = 60.0


class RoundStarter:
    """Knows the row of one sweep, and starts its rounds from this worker."""

    def __init__(self, kind: Kind, tools: Tools, calls: SourceCalls) -> None:
        self._kind = kind
        self._tools = tools
        self._calls = calls
        self._described = described(terms_of(kind).source, name_of(terms_of(kind).source))
        self.row: SweepRow | None = None
        # Whether this worker has taken part in a round.
        self._has_begun = False
        self._others_since: float | None = None
        self._starting: Future[int | None] | None = None

    @property
    def is_starting(self) -> bool:
        return self._starting is not None

    @property
    def is_declared_here(self) -> bool:
        """Whether the sweep reads the source that this app declares, not one with other keys."""
        return self.row is None or has_same_keys(self.row.source, self._described)

    @property
    def is_due(self) -> bool:
        """Whether this worker should start a round now."""
        row = self.row
        if row is None or row.is_running or row.due_at is None or row.stopped_at is not None:
            return False
        if (self._tools.once and self._has_begun) or not self.is_declared_here:
            return False
        now = self._tools.clock.now()
        if row.due_at > now:
            return False
        return (
            self._tools.once or may_begin_at(started_at=row.started_at, rows=row.rows or 0) <= now
        )

    def see(self, row: SweepRow | None) -> bool:
        """Learn the row as it is now; whether another round runs."""
        is_new = self.row is not None and row is not None and row.round != self.row.round
        self.row = row
        if row is not None and row.is_running:
            self._has_begun = True
        return is_new

    def read_row(self) -> None:
        """Read the row again, after this worker has changed it."""
        name = self._kind.name
        self.row = self._tools.database.read(lambda connection: store.get(connection, name))

    def start(self, worker: int) -> None:
        """Start the round, on another thread."""
        if self._starting is None and time.monotonic() >= self._calls.retry_at:
            self._starting = self._calls.submit(self._open_round, worker)

    def collect(self) -> bool:
        """Whether a round has just been started."""
        if self._starting is None or not self._starting.done():
            return False
        started, self._starting = self._starting, None
        if self._calls.result(started) is None:
            return False
        self._has_begun = True
        self.read_row()
        return True

    def _open_round(self, worker: int) -> int | None:
        tools, name = self._tools, self._kind.name
        now = tools.clock.now()
        before = tools.database.write_as(
            worker,
            lambda connection: store.take_start(connection, name, worker=worker, now=now),
            lost=None,
        )
        if before is None:
            return None
        try:
            return open_round(
                tools.database,
                before,
                self._calls.source,
                numbers=tools.numbers,
                clock=tools.clock,
                source_text=self._described,
                worker=worker,
            )
        except Exception:
            tools.database.write(
                lambda connection: store.give_up_start(connection, worker=worker, name=name)
            )
            raise

    def take_over_abandoned(self) -> None:
        """Take over a sweep that reads a source with other keys, once no worker runs it.

        While workers with both declarations live, they must not take it from each other.
        """
        now = time.monotonic()
        if self.is_declared_here:
            self._others_since = None
        elif self._others_since is None:
            self._others_since = now
        elif now - self._others_since >= OTHERS_SECONDS:
            self._others_since = now
            tools, name = self._tools, self._kind.name
            found = tools.database.read(lambda connection: ranges.listing(connection, name))
            if all(each.batch is None for each in found):
                take_over(tools.database, tools.numbers, tools.clock, self._kind)

"""What a consumer has done since it last wrote that down: statistics, breakers and metrics."""

from __future__ import annotations

import time
from collections.abc import Sequence

from windlass.core.face import FaceLoop, Workplace
from windlass.core.finish.store import MINUTE
from windlass.core.limit.gate import Move
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.dialect.base import Count
from windlass.queue.engine.effect import MessageRun
from windlass.value.outcome import Failed, Outcome, Retried, Snoozed

WRITE_SECONDS = 1.0


class ConsumerTally:
    """Counts the calls of one consumer."""

    def __init__(self, kind: Kind, workplace: Workplace) -> None:
        self._kind = kind
        self._workplace = workplace
        self._written_at = time.monotonic()
        self._runs: list[MessageRun] = []
        self.duplicates = 0

    def add(self, run: MessageRun) -> None:
        """A call has ended."""
        self._runs.append(run)

    def write(self, loop: FaceLoop, *, now: bool = False) -> None:
        """Write the counts, at most once a second unless `now`."""
        if not self._runs or (not now and time.monotonic() - self._written_at < WRITE_SECONDS):
            return
        began = self._written_at = time.monotonic()
        runs, site, gate = self._runs, self._workplace.site, self._workplace.gate
        moment = site.clock.now()
        counts = _counts(self._kind.name, runs, worker=self._workplace.worker(), now=moment)
        ids = {run.task.id for run in runs}
        moves: list[Move] = []

        def work(connection: Connection) -> None:
            site.database.dialect.count(connection, [counts])
            moves[:] = gate.breakers.note(connection, runs, ids, now=moment)

        site.database.write(work, tries=2)
        moves += gate.breakers.note_elsewhere(runs, ids)
        gate.breakers.tell(moves)
        gate.settle_trips(written_since=began)
        load = self._workplace.in_flight.loads[self._kind.name]
        if any(move.opened and move.kind in load.names for move in moves):
            self._workplace.in_flight.take_back(self._kind.name)
        meter = site.registry.meter
        if meter is not None:
            meter.swept([counts], {self._kind.name: [run.milliseconds for run in runs]})
        loop.done += counts.done + counts.failed
        loop.failed += counts.failed
        self._runs = []


def _counts(kind: str, runs: Sequence[MessageRun], *, worker: int, now: int) -> Count:
    count = Count(now // MINUTE, kind, worker)
    for run in runs:
        answers: Sequence[Outcome | None] | None = run.answers if run.is_committed else None
        for outcome in answers or [run.outcome] * len(run.held):
            if isinstance(outcome, Failed):
                count.failed += 1
            elif isinstance(outcome, Retried):
                count.retried += 1
            elif not isinstance(outcome, Snoozed):
                count.done += 1
        count.milliseconds += round(run.milliseconds)
    return count

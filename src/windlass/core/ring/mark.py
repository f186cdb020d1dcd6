"""Marking: write the claim of a row that the owner of its bucket only read.

That is needed when its handler runs long, or when its bucket goes to another worker. If the row has
changed since it was read, it was cancelled or moved, and its run is stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from windlass import telemetry
from windlass.clock import Clock
from windlass.core.loop import Loop
from windlass.core.ring.store import held
from windlass.core.run.in_flight import InFlight
from windlass.core.run.ready import Run
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.database.dialect.base import Stamp
from windlass.database.number import Numbers

LONG_SECONDS = 0.25
LOOK_SECONDS = 0.1


class Mark(Loop):
    """Writes the claims of long runs."""

    name = "mark"

    def __init__(
        self,
        database: Database,
        in_flight: InFlight,
        clock: Clock,
        numbers: Numbers,
        *,
        lease: int,
    ) -> None:
        super().__init__()
        self._database = database
        self._in_flight = in_flight
        self._clock = clock
        self._numbers = numbers
        self._lease = lease

    def tick(self) -> float:
        if self._long_runs():
            with self._in_flight.writing:
                runs = self._long_runs()
                for worker in {run.task.worker for run in runs}:
                    self._mark(worker, [run for run in runs if run.task.worker == worker])
        return LOOK_SECONDS

    def _long_runs(self) -> list[Run]:
        return self._in_flight.long_reads(time.monotonic() - LONG_SECONDS)

    def _mark(self, worker: int, runs: list[Run]) -> None:
        now = self._clock.now()
        stamp = Stamp(self._numbers.take()[0], worker, now, now + self._lease)
        write_down(self._database, self._in_flight, runs, stamp)


def write_down(
    database: Database,
    in_flight: InFlight,
    runs: Sequence[Run],
    stamp: Stamp,
    *,
    beside: Callable[[Connection], None] | None = None,
) -> None:
    """Write the claims of runs that were only read, and call `beside` in the same transaction.

    Hold `in_flight.writing`, so that no outcome of these runs is written at the same time.
    """

    def work(connection: Connection) -> set[int] | None:
        marked = held.mark(connection, [run.task for run in runs], stamp) if runs else set()
        if beside is not None:
            beside(connection)
        return marked

    marked = database.write_as(stamp.worker, work, lost=None)
    if marked is None:
        # The worker was marked left; its next heartbeat will see that and stop everything.
        return
    for run in runs:
        if run.task.id in marked:
            run.task = replace(run.task, batch=stamp.batch)
    changed = [run.task.id for run in runs if run.task.id not in marked]
    for run in in_flight.drop(changed):
        telemetry.emit("task.refused", task=run.task.id, kind=run.kind.name)

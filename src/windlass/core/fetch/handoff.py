"""The hand-over: nodes that a finish makes due go straight to the runners of the same worker.

Only rows of buckets that this worker owns, and of kinds that nothing holds back. They wait here for
the thread of the fetcher, which alone takes rows and gives up buckets: so a row that it has read by
itself meanwhile is not taken a second time, and none of a bucket that it has given up. Whatever is
not handed over lies in the database, due, and is found by whoever reads its bucket.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Connection

from windlass import telemetry
from windlass.clock import Clock
from windlass.core.finish.store.finish import Batch
from windlass.core.run.in_flight import InFlight
from windlass.core.run.load import Room
from windlass.database.database import Database
from windlass.database.dialect.base import Executor, Stamp, stamped
from windlass.flow.model.node import Blank, Results, filled, is_to_fill, read_blank, unfit
from windlass.flow.store.dialect import STATEMENTS
from windlass.flow.store.slot import After
from windlass.value.task import Claimed

# A longer list is quicker read by everyone from the database.
MOST = 1_000


class HandOff:
    """Due nodes on their way from the finish to the fetcher."""

    def __init__(self, database: Database, in_flight: InFlight, clock: Clock) -> None:
        self._database = database
        self._in_flight = in_flight
        self._clock = clock
        self._lock = threading.Lock()
        self._rows: dict[int, Claimed] = {}
        # Set by the worker: whether a bucket is its own, and a row may run without being asked for.
        self.is_near: Callable[[int], bool] = lambda _bucket: False
        self.is_ours: Callable[[Claimed], bool] = lambda _row: False
        self.wake_others: Callable[[Executor], None] = lambda _executor: None
        self.on_rows: Callable[[], None] = lambda: None
        self.on_others: Callable[[], None] = lambda: None

    def begin(self, batch: Batch) -> Hand:
        """What is to be told how the end of the nodes in `batch` fills slots."""
        return Hand(self, batch.worker)

    def read(self, ids: Collection[int], worker: int) -> list[Claimed]:
        """The rows of due nodes as an owner's read finds them."""
        statements = STATEMENTS.of(self._database.dialect)

        def read(connection: Connection) -> list[Sequence[Any]]:
            asked = {"ids": statements.listed(ids)}
            return list(connection.execute(statements.rows, asked).fetchall())

        return self.taken(self._database.read(read), worker)

    def taken(self, rows: Iterable[Sequence[Any]], worker: int) -> list[Claimed]:
        """Rows as an owner's read has them."""
        now = self._clock.now()
        stamp = Stamp(None, worker, now, now)
        # One that is not as it was made, another has taken or ended meanwhile.
        return [stamped(row, stamp) for row in rows if row[4] is not None]

    def put(self, rows: Iterable[Claimed]) -> None:
        """Have the fetcher take these, unless it has found them by itself."""
        with self._lock:
            self._rows |= {row.id: row for row in rows if not self._in_flight.knows(row.id)}

    def take(self, room: Room) -> list[Claimed]:
        """What fits into `room`; the rest is left to be read."""
        if not self._rows:
            return []
        with self._lock:
            rows, self._rows = self._rows, {}
        left = dict(room.kinds)
        taken: list[Claimed] = []
        for row in rows.values():
            if left.get(row.kind, 0) < 1 or len(taken) >= room.total or not self.is_ours(row):
                continue
            left[row.kind] -= 1
            taken.append(row)
        if len(taken) < len(rows):
            self.on_others()
        return taken

    def forget(self, taken: Iterable[Claimed]) -> None:
        """These were found by a read."""
        if self._rows:
            with self._lock:
                for row in taken:
                    self._rows.pop(row.id, None)

    def clear(self) -> None:
        """Take nothing of what waits here: the buckets it is in may be another's."""
        with self._lock:
            self._rows.clear()


class Hand:
    """What one finish hands over, once it has committed."""

    def __init__(self, desk: HandOff, worker: int) -> None:
        self._desk = desk
        self._worker = worker
        self._after = After()

    def __call__(self, connection: Connection, after: After) -> None:
        """Know, in the transaction, what has become due; wake those whose it is."""
        self._after = after
        if not all(map(self._desk.is_near, after.due.values())):
            self._desk.wake_others(connection)

    def over(self) -> None:
        """The transaction has committed: take what is ours."""
        for run, status in self._after.runs.items():
            telemetry.emit("flow.ended", run=run, status=str(status))
        near = [number for number, bucket in self._after.due.items() if self._desk.is_near(bucket)]
        rows = self._rows(near)
        ours = [row for row in rows if self._desk.is_ours(row)]
        if ours:
            self._desk.put(ours)
            self._desk.on_rows()
        if len(ours) < len(near):
            self._desk.on_others()

    def _rows(self, near: Sequence[int]) -> list[Claimed]:
        if not near:
            return []
        if self._after.rows:
            return self._desk.taken(self._after.rows, self._worker)
        return self._desk.read(near[:MOST], self._worker)


def resolved(database: Database, tasks: list[Claimed]) -> list[Claimed]:
    """`tasks`, with the results that arguments of nodes stand for; one read for all of them.

    One for which that fails is given a payload that fails it, and disturbs no other.
    """
    blanks: dict[int, Blank] = {}
    payloads: dict[int, str] = {}
    for task in tasks:
        if task.flow_id is not None and is_to_fill(task.payload):
            try:
                blanks[task.id] = read_blank(task.payload)
            except Exception as problem:
                payloads[task.id] = unfit(problem)
    if not blanks and not payloads:
        return tasks
    results = Results(
        _results(database, {each for blank in blanks.values() for each in blank.needs})
    )
    for number, blank in blanks.items():
        try:
            payloads[number] = filled(blank, results)
        except Exception as problem:
            payloads[number] = unfit(problem)
    return [
        replace(task, payload=payloads[task.id]) if task.id in payloads else task for task in tasks
    ]


def _results(database: Database, wanted: Collection[int]) -> dict[int, str | None]:
    if not wanted:
        return {}
    statements = STATEMENTS.of(database.dialect)

    def read(connection: Connection) -> dict[int, str | None]:
        rows = connection.execute(statements.results, {"ids": statements.listed(wanted)})
        return {row[0]: row[1] for row in rows.fetchall()}

    return database.read(read)

"""The ring: which buckets belong to this worker, and how they change hands.

Who is the authority? The rows of `windlass_bucket`. Every worker computes by itself, from the same
list of members, which run of buckets it should own. But it reads only the buckets that it has
acquired in the database, and it acquires only buckets without an owner. So even with a wrong list a
bucket has one owner, and nobody else takes what its owner reads.

Which time is trusted? None: a member is alive until it is marked left. In memory only pauses are
measured, on the monotonic clock; a wrong pause costs a moment, never a row.

What does each failure do? A worker that dies owns its buckets until it is marked left. The same
transaction frees them, and writes up to which due time the next owner must be careful. A worker
that is stopped and wakes up late was marked left, and sees that at its next write. It may run what
it read in the meantime, but the outcomes are refused. A worker that joins waits until the others
give up its buckets; a worker that does not give them up is dead, or will soon be marked dead. If a
list of members is old, or differs between workers, some buckets wait for their owner, and nothing
worse happens.

How is a bucket given up? The worker stops reading it and forgets rows that have not started. It
gives running rows a moment to end. Then it writes in one transaction: the claims of the rows that
it still holds, also of those that ended but are not recorded, and that the bucket is free. All of
this happens on the thread that reads, so no read is under way when a bucket changes hands.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from windlass import telemetry
from windlass.core.face import Site
from windlass.core.loop import Loop
from windlass.core.ring import store as ring_store
from windlass.core.ring.store import WorkerView
from windlass.core.run.in_flight import InFlight
from windlass.core.run.ready import Run
from windlass.core.task.progress import ReportedProgress
from windlass.core.task.store import progress
from windlass.core.task.store.progress import ProgressRow
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.database.dialect.base import Stamp
from windlass.ring import assign
from windlass.value.bucket import owned_with

LONG_SECONDS = 0.25
LOOK_SECONDS = 0.1


class Mark(Loop):
    """Writes the claims of rows that were only read and whose handlers run long.

    It also writes how far handlers say that they are.

    If such a row has changed since it was read, it was cancelled or moved, and its run is stopped.
    """

    name = "mark"

    def __init__(self, site: Site, in_flight: InFlight, *, lease: int) -> None:
        super().__init__()
        self._site = site
        self._in_flight = in_flight
        self._lease = lease

    def tick(self) -> float:
        if self._long_runs():
            with self._in_flight.writing:
                runs = self._long_runs()
                for worker in {run.task.worker for run in runs}:
                    self._mark(worker, [run for run in runs if run.task.worker == worker])
        self._save_progress()
        # What starts from now on has not run long before then.
        return LOOK_SECONDS if self._in_flight.running else LONG_SECONDS

    def _save_progress(self) -> None:
        """Write how far runs say that they are: all in one transaction, behind the fence."""
        now = time.monotonic()
        runs = [run for run, found in self._in_flight.reporting() if found.is_due(now)]
        if not runs or not self._site.database.schema.has(progress.MIGRATION):
            return
        with self._in_flight.writing:
            # One that has ended meanwhile may have been written, and has no progress any more.
            still = [(run, found) for run, found in self._in_flight.reporting() if run in runs]
            for worker in {run.task.worker for run, _ in still}:
                self._save(worker, [each for each in still if each[0].task.worker == worker])

    def _save(self, worker: int, reporting: Sequence[tuple[Run, ReportedProgress]]) -> None:
        database, now = self._site.database, self._site.clock.now()
        reached = [(run, found, found.now) for run, found in reporting]
        rows = [
            ProgressRow(run.task.id, run.task.attempt, *each, saved_at=now)
            for run, _, each in reached
        ]
        database.write_as(
            worker,
            lambda connection: progress.save(connection, database.dialect, rows),
            lost=None,
        )
        for _, found, each in reached:
            found.written(each)

    def _long_runs(self) -> list[Run]:
        return self._in_flight.long_reads(time.monotonic() - LONG_SECONDS)

    def _mark(self, worker: int, runs: list[Run]) -> None:
        stamp = self._site.stamp(worker, self._lease)
        write_down(self._site.database, self._in_flight, runs, stamp)


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
        marked = ring_store.mark(connection, [run.task for run in runs], stamp) if runs else set()
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


GIVE_UP_AFTER = 0.25
ASK_AGAIN_AFTER = 0.1


class Share(NamedTuple):
    """The buckets that a worker may read now, in contiguous runs.

    Rows that were due by `careful_to` must be claimed before they run. The worker may have left by
    the time that a share is used.
    """

    worker: int = 0
    runs: Sequence[range] = ()
    careful_to: int = 0


class Ring:
    """The share of one worker."""

    def __init__(
        self,
        site: Site,
        in_flight: InFlight,
        *,
        kinds: Collection[str],
        lease: int,
        changed: Callable[[], None],
    ) -> None:
        self._site = site
        self._database = site.database
        self._in_flight = in_flight
        self._kinds = frozenset(kinds)
        self._lease = lease
        self._changed = changed
        self._lock = threading.Lock()
        self._worker = 0
        self._wanted = range(0)
        self._others: dict[int, WorkerView] = {}
        self._owned: dict[int, int] = {}
        self._giving_up: dict[int, float] = {}
        self._asked_at = float("-inf")
        self._first_leases: dict[int, int] = {}
        # All workers that had not left at the last look, members or not.
        self.present: Collection[int] = ()
        self.share = Share()
        # The kinds that some other workers do not serve, and the ids of those workers.
        self.strangers: Mapping[str, Collection[int]] = {}

    def see(self, me: int, workers: Sequence[WorkerView]) -> None:
        """Take over the current list of workers; call it from any thread."""
        with self._lock:
            if me != self._worker:
                self._begin(me)
            self.present = {view.id for view in workers}
            members = {view.id: view for view in workers if view.kinds}
            wanted = assign(members).get(me, range(0))
            self._others = {number: view for number, view in members.items() if number != me}
            for number, view in self._others.items():
                self._first_leases.setdefault(number, view.lease_until)
            self.strangers = {
                kind: strangers
                for kind in self._kinds
                if (strangers := [who.id for who in self._others.values() if kind not in who.kinds])
            }
            has_changed, self._wanted = wanted != self._wanted, wanted
        if has_changed:
            self._changed()

    def settle(self) -> None:
        """Give up buckets that are no longer ours, and take ours that are free.

        The thread that reads calls it, between two reads.
        """
        with self._lock:
            wanted, worker = set(self._wanted), self._worker
        if worker != self._in_flight.owner:
            return
        surplus = self._owned.keys() - wanted
        if surplus or self._giving_up:
            self._give_up(worker, surplus)
        lacking = wanted - self._owned.keys()
        if lacking and time.monotonic() - self._asked_at > ASK_AGAIN_AFTER:
            self._take(worker)

    @property
    def is_settled(self) -> bool:
        """Whether it owns exactly the buckets that it should."""
        with self._lock:
            return self._owned.keys() == set(self._wanted) and self._worker == self._in_flight.owner

    @property
    def has_others(self) -> bool:
        """Whether the ring has other members."""
        return bool(self._others)

    @property
    def are_others_alive(self) -> bool:
        """Whether each other member has renewed its lease since it was first seen."""
        with self._lock:
            return all(
                view.lease_until != self._first_leases[number]
                for number, view in self._others.items()
            )

    def _begin(self, me: int) -> None:
        self._worker = me
        self._wanted = range(0)
        self._owned, self._giving_up = {}, {}
        self._asked_at = float("-inf")
        self.share = Share(me)

    def _take(self, worker: int) -> None:
        self._asked_at = time.monotonic()
        wanted = self._wanted

        def work(connection: Connection) -> dict[int, int]:
            ring_store.acquire(connection, worker, wanted)
            return ring_store.owned(connection, worker)

        nothing: dict[int, int] = {}
        owned = self._database.write_as(worker, work, lost=nothing)
        gained = len(owned.keys() - self._owned.keys())
        self._set_owned(worker, owned)
        if gained:
            telemetry.emit("ring.acquired", worker=worker, buckets=gained, owned=len(owned))

    def _be_careful(self, worker: int, until: int) -> None:
        """Rows due by then are claimed from now on: claim those that are already in flight, too."""
        if until <= self.share.careful_to:
            return
        self._in_flight.forget_reads(lambda task: task.due_at <= until)
        with self._in_flight.writing:
            held = self._in_flight.reads(lambda task: task.due_at <= until)
            if held:
                write_down(
                    self._database, self._in_flight, held, self._site.stamp(worker, self._lease)
                )

    def _give_up(self, worker: int, surplus: set[int]) -> None:
        now = time.monotonic()
        new = surplus - self._giving_up.keys()
        kept = self._giving_up.keys() - surplus
        if new or kept:
            # Buckets may be ours again before they were given up.
            for number in kept:
                del self._giving_up[number]
            self._giving_up.update(dict.fromkeys(new, now))
            self._set_owned(worker, self._owned)
            self._in_flight.forget_reads(lambda task: owned_with(task.bucket) in new)
        held = {
            owned_with(run.task.bucket)
            for run in self._in_flight.reads(lambda task: owned_with(task.bucket) in surplus)
        }
        ready = {
            number
            for number, since in self._giving_up.items()
            if now - since > GIVE_UP_AFTER or number not in held
        }
        if ready:
            self._free(worker, ready)

    def _free(self, worker: int, ready: set[int]) -> None:
        try:
            with self._in_flight.writing:
                write_down(
                    self._database,
                    self._in_flight,
                    self._in_flight.reads(lambda task: owned_with(task.bucket) in ready),
                    self._site.stamp(worker, self._lease),
                    beside=lambda connection: ring_store.release(connection, worker, ready),
                )
        except BaseException:
            # It may have been written or not: ask what is ours again before reading.
            self._giving_up = {}
            self._set_owned(worker, {})
            raise
        for number in ready:
            self._giving_up.pop(number, None)
        self._set_owned(worker, {k: v for k, v in self._owned.items() if k not in ready})
        telemetry.emit("ring.released", worker=worker, buckets=len(ready), owned=len(self._owned))

    def _set_owned(self, worker: int, owned: dict[int, int]) -> None:
        """Own these buckets, and read those that are not being given up."""
        kept = {
            number: careful for number, careful in owned.items() if number not in self._giving_up
        }
        careful_to = max(kept.values(), default=0)
        self._be_careful(worker, careful_to)
        with self._lock:
            if worker == self._worker:
                self._owned = owned
                self.share = Share(worker, ring_store.runs_of(kept), careful_to)

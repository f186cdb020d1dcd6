"""The ring: which buckets are this worker's, and how they change hands.

Who is the authority? The rows of `windlass_bucket`. Every worker computes alone, from the same list
of members, which run of buckets should be its own; but it reads only those that it has acquired in
the database, and acquires only those that nobody owns. So however wrong its list is, a bucket has
one owner, and what its owner reads nobody else takes.

Which time is trusted? The database's, by which members are alive or silent. In memory only pauses
are measured, on the monotonic clock; getting one wrong costs a moment, never a row.

What does each failure do? A worker that dies owns its buckets until it is marked left: the same
transaction frees them, and says up to when whoever comes next is to be careful. A worker that is
stopped and wakes up late has been marked left, and finds so with its next write; what it has read
meanwhile it could only have run, and its outcome is refused. A worker that joins waits until the
others give up what is to be its own; one that does not give it up is dead, or soon known to be. A
list of members that is old, or differs between workers, makes some buckets wait for their owner,
and nothing worse.

How is a bucket given up? The worker stops reading it and forgets what has not begun. It gives what
runs a moment to end, and then writes in one transaction: the claims of what is still held, also of
what has ended but is not recorded, and that the bucket is free. All of it happens on the thread
that reads, so no read is ever under way when a bucket changes hands.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from windlass import telemetry
from windlass.clock import Clock
from windlass.core.ring.mark import write_down
from windlass.core.ring.store import bucket
from windlass.core.ring.store.worker import WorkerView
from windlass.core.run.in_flight import InFlight
from windlass.database.database import Database
from windlass.database.dialect.base import Stamp
from windlass.database.number import Numbers
from windlass.ring import assign

GIVE_UP_AFTER = 0.25
ASK_AGAIN_AFTER = 0.1


class Share(NamedTuple):
    """The buckets that a worker may read now, in contiguous runs, and up to when to be careful.

    Whatever is done with them is done in the name of that worker, which may be left by then.
    """

    worker: int = 0
    runs: Sequence[range] = ()
    careful_to: int = 0


class Ring:
    """The share of one worker."""

    def __init__(
        self,
        database: Database,
        in_flight: InFlight,
        clock: Clock,
        numbers: Numbers,
        *,
        kinds: Collection[str],
        lease: int,
        changed: Callable[[], None],
    ) -> None:
        self._database = database
        self._in_flight = in_flight
        self._clock = clock
        self._numbers = numbers
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
        # All that had not left when it was last looked, members or not.
        self.present: Collection[int] = ()
        self.share = Share()
        # The kinds that some of the others do not serve, and who they are.
        self.strangers: Mapping[str, Collection[int]] = {}

    def see(self, me: int, workers: Sequence[WorkerView]) -> None:
        """These are the members of now; from any thread."""
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
        """Give up what is no longer ours and take what is, as far as it can be had now.

        Called by the thread that reads, between two reads.
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
        """Whether it owns exactly what it should, as far as it knows."""
        with self._lock:
            return self._owned.keys() == set(self._wanted) and self._worker == self._in_flight.owner

    @property
    def has_others(self) -> bool:
        """Whether it is not alone."""
        return bool(self._others)

    @property
    def are_others_alive(self) -> bool:
        """Whether each of the others has given a heartbeat since it was first seen."""
        with self._lock:
            return all(
                view.lease_until > self._first_leases[number]
                for number, view in self._others.items()
            )

    def _begin(self, me: int) -> None:
        """A new life owns nothing, whatever the old one did."""
        self._worker = me
        self._wanted = range(0)
        self._owned, self._giving_up = {}, {}
        self._asked_at = float("-inf")
        self.share = Share(me)

    def _take(self, worker: int) -> None:
        self._asked_at = time.monotonic()
        wanted = self._wanted

        def work(connection: Connection) -> dict[int, int]:
            bucket.acquire(connection, worker, wanted)
            return bucket.owned(connection, worker)

        nothing: dict[int, int] = {}
        owned = self._database.write_as(worker, work, lost=nothing)
        gained = len(owned.keys() - self._owned.keys())
        self._share_out(worker, owned)
        if gained:
            telemetry.emit("ring.acquired", worker=worker, buckets=gained, owned=len(owned))

    def _be_careful(self, worker: int, until: int) -> None:
        """What was due by then is claimed from now on: what is held of it must be claimed too."""
        if until <= self.share.careful_to:
            return
        self._in_flight.forget_reads(lambda task: task.due_at <= until)
        with self._in_flight.writing:
            held = self._in_flight.reads(lambda task: task.due_at <= until)
            if held:
                write_down(self._database, self._in_flight, held, self._stamp(worker))

    def _give_up(self, worker: int, surplus: set[int]) -> None:
        now = time.monotonic()
        new = surplus - self._giving_up.keys()
        kept = self._giving_up.keys() - surplus
        if new or kept:
            # Some may be ours again before they were given up.
            for number in kept:
                del self._giving_up[number]
            self._giving_up.update(dict.fromkeys(new, now))
            self._share_out(worker, self._owned)
            self._in_flight.forget_reads(lambda task: task.bucket in new)
        held = {
            run.task.bucket for run in self._in_flight.reads(lambda task: task.bucket in surplus)
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
                    self._in_flight.reads(lambda task: task.bucket in ready),
                    self._stamp(worker),
                    beside=lambda connection: bucket.release(connection, worker, ready),
                )
        except Exception:
            # Whether it was written nobody knows: what is ours is asked anew before it is read.
            self._giving_up = {}
            self._share_out(worker, {})
            raise
        for number in ready:
            self._giving_up.pop(number, None)
        self._share_out(worker, {k: v for k, v in self._owned.items() if k not in ready})
        telemetry.emit("ring.released", worker=worker, buckets=len(ready), owned=len(self._owned))

    def _stamp(self, worker: int) -> Stamp:
        now = self._clock.now()
        return Stamp(self._numbers.take()[0], worker, now, now + self._lease)

    def _share_out(self, worker: int, owned: dict[int, int]) -> None:
        """These are ours; what is not being given up may be read, unless that life is over."""
        kept = {
            number: careful for number, careful in owned.items() if number not in self._giving_up
        }
        careful_to = max(kept.values(), default=0)
        self._be_careful(worker, careful_to)
        with self._lock:
            if worker == self._worker:
                self._owned = owned
                self.share = Share(worker, bucket.runs(kept), careful_to)

"""The heartbeat of a worker: it joins, gives heartbeats, and leaves or is given up for dead.

Who is the authority? The worker's own row, and nothing in memory. A worker that was marked left is
left, whatever it believes: each of its transactions first looks at that row and finds it so. It
then stops everything and joins anew under a new id, so that nothing of its old heartbeat can be mistaken
for its new one.

Which time is trusted? The database's, for the lease. For its own stop_if_lease_ended a worker needs no clock of
others: if it could not renew for as long as the lease lasts, on its monotonic clock, it must assume
that it is marked left, and stops what it runs.

What does each failure do? The database is away for a moment: renewals fail, runs go on, outcomes
wait. It is away for longer than the lease: everything stops; when it is back, outcomes that waited
are written under the old id if nobody has marked it left, the rest is handed back, and the worker
joins anew. The process is stopped and wakes up late: somebody has marked it left; its writes change
nothing. The process dies: its lease runs out, anyone marks it left, and its rows are taken over.
And after an outage nobody is marked left until everyone has had the time to come back.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence

from sqlalchemy import Connection

from windlass import telemetry
from windlass.clock import SECOND, Clock, DatabaseClock
from windlass.core.fetch.store import claim
from windlass.core.loop import Loop
from windlass.core.ring.member import Members
from windlass.core.ring.store import worker
from windlass.core.run.in_flight import InFlight
from windlass.database.database import Database
from windlass.database.number import Numbers
from windlass.errors import BadMembers, MembersUnavailable

LONGEST_BEAT_SECONDS = 1.0
BEATS_PER_LEASE = 5
USELESS_AFTER = 3
LONG_RUN_SECONDS = 1.0


class Heartbeat(Loop):
    """Joins, beats every second, and takes care of the dead."""

    name = "heartbeat"

    def __init__(
        self,
        database: Database,
        in_flight: InFlight,
        clock: Clock,
        numbers: Numbers,
        *,
        kinds: worker.Kinds,
        due: Callable[[int], dict[str, int]],
        lease: int,
        dead_after: int,
        flush: Callable[[], None],
        see: Callable[[int, Sequence[worker.WorkerView]], None],
        members: Members | None = None,
    ) -> None:
        super().__init__()
        self._database = database
        self._in_flight = in_flight
        self._clock = clock
        self._numbers = numbers
        self._kinds = kinds
        self._due = due
        self._lease = lease
        self._dead_after = dead_after
        self._flush = flush
        self._see = see
        self._members = members
        if members is not None:
            members.listen(self.wake)
        # Who was heard to be alive, and since when those were missed who never were.
        self._heard: set[int] = set()
        self._missed: dict[int, float] = {}
        # How many rows it could start soon while it has none.
        # How many rows it could start while it has none.
        self.idle: Callable[[], int] = lambda: 0
        self._lock = threading.Lock()
        self._renewed_at = 0.0
        self._steady_since = 0.0
        self._swept_at = 0.0
        self.id = 0
        # After an outage it must be back before anyone may think that it is dead.
        self._beat_seconds = min(LONGEST_BEAT_SECONDS, dead_after / SECOND / BEATS_PER_LEASE)
        self.longest_pause = self._beat_seconds

    def join_ring(self) -> None:
        """Be there under a new id, holding nothing."""
        number = self._numbers.take()[0]
        if self._members is not None:
            # Before its row is there: from then on the others keep a share for it.
            ring = self._database.write(self._agree)
            self._members.join(ring, number)
        before = time.monotonic()
        try:
            self._database.write(lambda connection: self._join(connection, number))
        except BaseException:
            if self._members is not None:
                self._members.leave()
            raise
        self.id = number
        self._renewed_at = self._steady_since = before
        self._in_flight.owner = number
        self._in_flight.renew(before + self._dead_after / SECOND)
        self._in_flight.is_halted = False
        self._see(number, self._database.read(worker.listing))
        telemetry.emit("worker.joined", worker=number, pid=os.getpid())

    def leave(self, why: str) -> None:
        """Hand back what is still held, and go."""
        with self._lock:
            handed_back = self._go(why)
        if self._members is not None:
            self._members.close()
        telemetry.emit("worker.left", worker=self.id, why=why, handed_back=handed_back or 0)

    def tick(self) -> float:
        with self._lock:
            if self._stopping:
                return self._beat_seconds
            try:
                self._beat()
            except MembersUnavailable:
                # It holds nothing, and `members.away` was told: join with the next beat.
                return self._beat_seconds
            except Exception:
                self._steady_since = time.monotonic()
                self.stop_if_lease_ended()
                raise
        return self._beat_seconds

    def _beat(self) -> None:
        before = time.monotonic()
        if isinstance(self._clock, DatabaseClock):
            self._clock.synchronise()
        now = self._clock.now()
        idle = self.idle()
        # No transaction: one that stops in the middle would hold its row, and put off its funeral.
        is_alive = self._database.single(
            lambda connection: worker.renew(
                connection,
                number=self.id,
                lease_until=now + self._dead_after,
                idle=idle,
            ),
            tries=1,
        )
        if not is_alive:
            self._lose("it was marked dead")
            return
        if self._in_flight.is_halted:
            self._come_back()
            return
        if before - self._renewed_at > self._dead_after / SECOND:
            self._steady_since = before
        self._renewed_at = before
        self._in_flight.renew(before + self._dead_after / SECOND)
        self._care_for_runs(now)
        self._care_for_the_dead(now)

    def stop_if_lease_ended(self) -> None:
        """Stop everything if the lease may have run out; a beat may hang and never tell."""
        if self._database.dialect.is_embedded:
            # It hangs because somebody writes for long, who keeps out the gravedigger too.
            return
        silent_for = time.monotonic() - self._renewed_at
        if silent_for > self._dead_after / SECOND and not self._in_flight.is_halted:
            self._in_flight.is_halted = True
            stopped = self._in_flight.drop_all()
            if self._members is not None:
                # Whoever cannot reach the database is of no use to the ring.
                self._members.leave()
            telemetry.emit(
                "worker.lost", worker=self.id, why="it could not renew", stopped=len(stopped)
            )

    def _come_back(self) -> None:
        """The lease had run out, but nobody has marked us left: go properly, and join anew."""
        self._flush()
        self._go("it could not renew")
        self.join_ring()

    def _go(self, why: str) -> int | None:
        now = self._clock.now()
        return worker.leave(self._database, number=self.id, now=now, why=why, due=self._due(now))

    def _lose(self, why: str) -> None:
        was_known, self._in_flight.is_halted = self._in_flight.is_halted, True
        stopped = self._in_flight.drop_all()
        if not was_known:
            telemetry.emit("worker.lost", worker=self.id, why=why, stopped=len(stopped))
        self.join_ring()

    def _care_for_runs(self, now: int) -> None:
        """Push the leases of long runs, and stop those that were taken from us."""
        began_before = time.monotonic() - LONG_RUN_SECONDS
        with_runs = list(self._in_flight.running.values())
        held = {
            run.task.id: run.task.batch
            for run in with_runs
            if run.began < began_before and run.task.batch is not None and run.keeper is None
        }
        until = now + self._lease
        lapsing = time.monotonic() - self._swept_at > self._lease / SECOND / 3
        # Rows of a claim under way are ours, although nobody here knows them yet.
        lapsing = lapsing and not self._in_flight.is_claiming
        if not held and not lapsing:
            return
        me = self.id

        def work(connection: Connection) -> set[int]:
            if not self._database.dialect.alive(connection, me):
                return set(held)
            if not lapsing:
                return claim.still_held(connection, held)
            kept = claim.push(connection, held, worker=me, until=until) if held else set()
            unknown = self._in_flight.knows
            claim.hand_back(connection, worker=me, now=now, due=self._due(now), unless=unknown)
            return kept

        kept = self._database.write(work, tries=1)
        if lapsing:
            self._swept_at = time.monotonic()
        taken_away = self._in_flight.drop(held.keys() - kept)
        for run in taken_away:
            telemetry.emit("task.refused", task=run.task.id, kind=run.kind.name)

    def _care_for_the_dead(self, now: int) -> None:
        workers = self._database.read(worker.listing, tries=1)
        self._see(self.id, workers)
        silent = self._silent(workers, now)
        if time.monotonic() - self._steady_since < self._dead_after / SECOND:
            return
        began = time.monotonic()
        # Each of those who care begins with another one.
        first = self.id % max(1, len(silent))
        for number in silent[first:] + silent[:first]:
            if time.monotonic() - began > self._beat_seconds:
                # Some of them are held up. The next beat goes on; this one must not be the last.
                break
            abandoned = worker.mark_dead(
                self._database,
                number=number,
                now=now,
                why="it missed its heartbeat",
                by_lease=self._members is None,
            )
            if abandoned is not None:
                telemetry.emit("worker.marked_dead", worker=number, abandoned=abandoned)
        if silent:
            self._see(self.id, self._database.read(worker.listing, tries=1))

    def _silent(self, workers: Sequence[worker.WorkerView], now: int) -> list[int]:
        """Those of the others who are to be marked dead."""
        others = [view for view in workers if view.id != self.id]
        lapsed = [view.id for view in others if view.lease_until < now]
        if self._members is None:
            return lapsed
        alive = self._members.alive()
        if alive is None:
            return []
        self._heard |= alive
        now_here = time.monotonic()
        members = {view.id for view in others if view.kinds}
        missing = members - alive
        self._missed = {number: self._missed.get(number, now_here) for number in missing}
        # One who has just joined may be known to the database first.
        gone = {
            number
            for number, since in self._missed.items()
            if number in self._heard or now_here - since > self._dead_after / SECOND
        }
        # One that others hear of, but not the database, has long been told to leave.
        useless = {
            view.id for view in others if view.lease_until < now - USELESS_AFTER * self._dead_after
        }
        return sorted(gone | useless | (set(lapsed) - members))

    def _join(self, connection: Connection, number: int) -> None:
        """Write the row of this life."""
        if self._kinds.serves:
            self._agree(connection)
        now = self._clock.now()
        worker.join(
            connection,
            number=number,
            host=socket.gethostname(),
            pid=os.getpid(),
            kinds=self._kinds,
            now=now,
            lease_until=now + self._dead_after,
        )

    def _agree(self, connection: Connection) -> str:
        """The name of the ring, whose workers all know each other by the same means."""
        kind = "database" if self._members is None else self._members.kind
        ring, agreed = worker.agree(connection, kind, now=self._clock.now())
        if agreed != kind:
            raise BadMembers(
                f"the workers of {self._database.name} know each other by {agreed}, and this one "
                f"would by {kind}; give all of them the same members=, or stop the others first"
            )
        return ring

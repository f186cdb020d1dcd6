"""The heartbeat of a worker: it joins, renews its lease, marks silent workers dead, and leaves.

Who is the authority? The worker's own row, and nothing in memory. A worker that was marked left has
left: each of its transactions looks at that row first. It then stops everything and joins again
under a new id, so that its old rows cannot be mistaken for new ones.

Which time is trusted? Each process trusts its own monotonic clock. A worker whose lease does not
change for `dead_after` is silent (`LeaseWatch`). A worker that could not renew for that
long must assume that it was marked left, and stops what it runs. The database's time is written in
the leases, for people; no worker is marked dead by it, so its clock may step.

If Python code cannot run here, because a handler holds the GIL, the guard renews instead
(`guard.py`). So only a process that is gone or stopped looks dead.

What does each failure do? The database is away for a moment: renewals fail, runs go on, outcomes
wait. It is away for longer than the lease: everything stops. When it is back and the worker was not
marked left, waiting outcomes are written under the old id, the rest is handed back, and the worker
joins again. The process is stopped and wakes up late: it was marked left, and its writes change
nothing. The process dies: its lease ends, another worker marks it left, and its rows are taken
over. After an outage no worker is marked left until all have had time to come back.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from windlass import telemetry
from windlass.clock import SECOND, DatabaseClock
from windlass.core.face import Faces, Site
from windlass.core.loop import Loop
from windlass.core.ring import store as ring_store
from windlass.core.ring.guard import Ward
from windlass.core.ring.member import Members
from windlass.core.run.in_flight import InFlight
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.errors import BadMembers, MembersUnavailable

LONGEST_BEAT_SECONDS = 1.0
BEATS_PER_LEASE = 5
USELESS_AFTER = 3
LONG_RUN_SECONDS = 1.0


class Heartbeat(Loop):
    """Joins, beats every second, and marks silent workers dead."""

    name = "heartbeat"

    def __init__(
        self,
        site: Site,
        in_flight: InFlight,
        kinds: Mapping[str, Kind],
        *,
        declared: ring_store.Kinds,
        lease: int,
        dead_after: int,
        flush: Callable[[], None],
        see: Callable[[int, Sequence[ring_store.WorkerView]], None],
        idle: Callable[[], int],
        on_step: Callable[[], None] = lambda: None,
        members: Members | None = None,
        guard_after: float | None = None,
    ) -> None:
        super().__init__()
        # Handlers may use up the connections of the app; a heartbeat must not wait for them.
        self._database = site.database.reserved
        self._in_flight = in_flight
        self._clock = site.clock
        self._numbers = site.numbers
        self._kinds = kinds
        self._declared = declared
        self._lease = lease
        self._dead_after = dead_after
        self._flush = flush
        self._see = see
        self._members = members
        if members is not None:
            members.listen(self.wake)
        # Workers that the coordinator has listed, and since when it does not list others.
        self._heard: set[int] = set()
        self._missed: dict[int, float] = {}
        self._idle = idle
        self._on_step = on_step
        self._watch = LeaseWatch()
        # The leases of silent workers that use another kind of membership.
        self._unchanged: Mapping[int, int] = {}
        self._faces = site.faces
        self._lock = threading.Lock()
        self._renewed_at = 0.0
        self._steady_since = 0.0
        self._looked_for_lapsed_at = 0.0
        self.id = 0
        # After an outage it must renew before others may mark it dead.
        self._beat_seconds = beat_seconds(dead_after)
        self.longest_pause = self._beat_seconds
        self._ward: Ward | None = None
        if guard_after is not None and isinstance(self._clock, DatabaseClock):
            self._ward = Ward(self._database, beat_seconds=self._beat_seconds, patience=guard_after)

    def join_ring(self) -> None:
        """Join under a new id, holding nothing."""
        number = self._numbers.take()[0]
        if self._declared.serves:
            self._watch_others()
        if self._members is not None:
            # Before its row is written: from then on the others leave buckets for it.
            ring = self._database.write(self._agree)
            self._members.join(ring, number)
        before = time.monotonic()
        try:
            lease_until = self._database.write(lambda connection: self._join(connection, number))
        except BaseException:
            if self._members is not None:
                self._members.leave()
            raise
        self.id = number
        self._renewed_at = self._steady_since = before
        self._in_flight.owner = number
        self._in_flight.renew(before + self._dead_after / SECOND)
        self._in_flight.is_halted = False
        if self._ward is not None:
            self._ward.renewed(number, lease_until=lease_until, at=before)
        self._see(number, self._database.read(ring_store.workers))
        telemetry.emit("worker.joined", worker=number, pid=os.getpid())

    def leave(self, why: str) -> None:
        """Hand back what is still claimed, and leave."""
        with self._lock:
            handed_back = self._leave(why)
        self.end()
        if self._members is not None:
            self._members.close()
        telemetry.emit("worker.left", worker=self.id, why=why, handed_back=handed_back or 0)

    def end(self) -> None:
        """The worker is over: its guard must never keep it alive again, whatever still hangs."""
        if self._ward is not None:
            self._ward.end()

    def let_go(self) -> None:
        """The guard must not keep it alive any longer, unless it joins again."""
        if self._ward is not None:
            self._ward.close()

    @property
    def is_fresh(self) -> bool:
        """Whether its last renewal succeeded, and is not too long ago."""
        silent_for = time.monotonic() - self._renewed_at
        return not self._is_database_away and silent_for <= self._dead_after / SECOND

    @property
    def age(self) -> float:
        """Seconds since its last renewal that succeeded, by itself or by its guard."""
        return time.monotonic() - max(self._renewed_at, self._guarded_at)

    @property
    def is_guarded(self) -> bool:
        """Whether a guard process can renew in its place."""
        return self._ward is not None and self._ward.slot is not None

    @property
    def _guarded_at(self) -> float:
        return 0.0 if self._ward is None else self._ward.renewed_at

    def tick(self) -> float:
        with self._lock:
            if self._stopping:
                return self._beat_seconds
            try:
                self._beat()
            except MembersUnavailable:
                # It holds nothing, and `members.away` was emitted: join at the next beat.
                return self._beat_seconds
            except Exception:
                self._steady_since = time.monotonic()
                self.stop_if_lease_ended()
                raise
        return self._beat_seconds

    def _beat(self) -> None:
        before = time.monotonic()
        workers = self._look()
        if self._clock.pending:
            # By the new time claims seem to have lapsed that were just made: look later.
            self._looked_for_lapsed_at = before
            self._on_step()
        now = self._clock.now()
        idle = self._idle()
        # Not in a transaction: a process that is stopped inside one would keep its row locked, and
        # no worker could mark it dead.
        is_alive = self._database.single(
            lambda connection: ring_store.renew(
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
        self._tell_guard(before, lease_until=now + self._dead_after)
        self._renewed_at = before
        self._in_flight.renew(before + self._dead_after / SECOND)
        self._push_leases(now)
        self._mark_dead(workers, now)

    def _look(self) -> list[ring_store.WorkerView]:
        """Read who is there, and follow the clock of the database."""
        workers: list[ring_store.WorkerView] = []

        def measure() -> int:
            look = partial(ring_store.workers_and_time, dialect=self._database.dialect)
            workers[:], now = self._database.read(look, tries=1)
            return now

        if isinstance(self._clock, DatabaseClock):
            self._clock.synchronise(measure)
        else:
            workers[:] = self._database.read(ring_store.workers, tries=1)
        self._watch.see(workers, at=time.monotonic())
        return workers

    def _tell_guard(self, before: float, *, lease_until: int) -> None:
        """Tell the guard of a renewal, and people if the guard had to renew meanwhile."""
        if self._ward is None:
            return
        if self._ward.renewed_at > self._renewed_at:
            silent_seconds = round(before - self._renewed_at, 1)
            telemetry.emit("worker.guarded", worker=self.id, seconds=silent_seconds)
        self._ward.renewed(self.id, lease_until=lease_until, at=before)

    def stop_if_lease_ended(self) -> None:
        """Stop everything if the lease may have ended; a beat may hang and never return."""
        if self._ward is not None:
            self._ward.pulse()
        if self._database.dialect.is_embedded or self._in_flight.is_halted:
            # A long write by another process blocks it, and blocks marking it dead as well.
            return
        # Read after `is_halted`: a worker that joins again sets that last.
        worker, renewed_at = self.id, self._renewed_at
        if self._ward is not None:
            renewed_at = max(renewed_at, self._ward.renewed_at)
        if time.monotonic() - renewed_at > self._dead_after / SECOND:
            self._in_flight.is_halted = True
            stopped = self._in_flight.drop_all()
            self.let_go()
            if self._members is not None:
                # A worker that cannot reach the database is of no use to the ring.
                self._members.leave(worker)
            telemetry.emit(
                "worker.lost", worker=worker, why="it could not renew", stopped=len(stopped)
            )

    def _come_back(self) -> None:
        """The lease has ended, but no worker marked this one left: leave, and join again."""
        self._flush()
        self._leave("it could not renew")
        self.join_ring()

    def _leave(self, why: str) -> int | None:
        now = self._clock.now()
        faces = self._faces.serving(self._kinds)
        return leave(self._database, faces, number=self.id, now=now, why=why, due=self._due(now))

    def _due(self, now: int) -> dict[str, int]:
        """The due time of rows that are handed back, for kinds with a tick: the last tick."""
        return {
            name: kind.due_until(now)
            for name, kind in self._kinds.items()
            if kind.period is not None and kind.period.tick is not None
        }

    def _lose(self, why: str) -> None:
        was_known, self._in_flight.is_halted = self._in_flight.is_halted, True
        stopped = self._in_flight.drop_all()
        if not was_known:
            telemetry.emit("worker.lost", worker=self.id, why=why, stopped=len(stopped))
        self.join_ring()

    def _push_leases(self, now: int) -> None:
        """Extend the leases of long runs, and stop runs that were taken away."""
        began_before = time.monotonic() - LONG_RUN_SECONDS
        held = {
            run.task.id: run.task.batch
            for run in list(self._in_flight.running.values())
            if run.began < began_before and run.task.batch is not None and run.keeper is None
        }
        until = now + self._lease
        lapsing = time.monotonic() - self._looked_for_lapsed_at > self._lease / SECOND / 3
        # A claim under way may have rows that are not known here yet.
        lapsing = lapsing and not self._in_flight.is_claiming
        if not held and not lapsing:
            return
        me = self.id

        def work(connection: Connection) -> set[int]:
            if not lapsing:
                return ring_store.still_held(connection, held)
            kept = ring_store.push(connection, held, worker=me, until=until) if held else set()
            rows = self._in_flight.rows
            ring_store.hand_back(connection, worker=me, now=now, due=self._due(now), unless=rows)
            return kept

        # If this worker was marked left, the next beat sees that and stops everything.
        kept = self._database.write_as(me, work, lost=set(held), tries=1)
        if lapsing:
            self._looked_for_lapsed_at = time.monotonic()
        for run in self._in_flight.drop(held.keys() - kept):
            telemetry.emit("task.refused", task=run.task.id, kind=run.kind.name)

    def _mark_dead(self, workers: Sequence[ring_store.WorkerView], now: int) -> None:
        self._see(self.id, workers)
        silent = self._silent(workers)
        if time.monotonic() - self._steady_since < self._dead_after / SECOND:
            return
        began = time.monotonic()
        # Each worker begins at another place, so that workers do not wait for each other.
        numbers, first = sorted(silent), self.id % max(1, len(silent))
        for number in numbers[first:] + numbers[:first]:
            if time.monotonic() - began > self._beat_seconds:
                # Some rows are locked. This beat must end in time; the next one continues.
                break
            abandoned = mark_dead(
                self._database, self._faces, number=number, now=now, lease=silent[number]
            )
            if abandoned is not None:
                telemetry.emit("worker.marked_dead", worker=number, abandoned=abandoned)
        if silent:
            self._see(self.id, self._database.read(ring_store.workers, tries=1))

    def _silent(self, workers: Sequence[ring_store.WorkerView]) -> Mapping[int, int | None]:
        """The other workers to mark dead, and their leases; None if the coordinator says so."""
        others = [view for view in workers if view.id != self.id]
        seconds, now = self._dead_after / SECOND, time.monotonic()
        silent = self._watch.unchanged(seconds, at=now)
        silent.pop(self.id, None)
        if self._members is None:
            return silent
        alive = self._members.alive()
        if alive is None:
            return {}
        self._heard |= alive
        members = {view.id for view in others if view.kinds}
        gone = self._gone(members - alive, silent)
        # The coordinator still lists it, but it has not reached the database for a long time.
        useless = self._watch.unchanged(USELESS_AFTER * seconds, at=now)
        useless.pop(self.id, None)
        visitors = {number: lease for number, lease in silent.items() if number not in members}
        return {**useless, **visitors, **gone}

    def _gone(self, missing: set[int], silent: Mapping[int, int]) -> dict[int, int | None]:
        """The workers that are dead among those that the coordinator does not list."""
        guarded = self._database.read(ring_store.guarded, tries=1) if missing else set()
        kept = (missing & guarded) - silent.keys()
        # A worker that can run again needs time until it is listed again, as a new one does.
        self._heard -= kept
        now = time.monotonic()
        self._missed = {number: self._missed.get(number, now) for number in missing - kept}
        # The guard of a worker that holds the GIL may need a moment to renew for the first time. A
        # new worker may be in the database before the coordinator lists it.
        return {
            number: silent.get(number) if number in guarded else None
            for number, since in self._missed.items()
            if number in guarded
            or now - since
            >= (self._beat_seconds if number in self._heard else self._dead_after / SECOND)
        }

    def _join(self, connection: Connection, number: int) -> int:
        if self._declared.serves:
            self._agree(connection)
        now = self._clock.now()
        ring_store.join(
            connection,
            number=number,
            host=socket.gethostname(),
            pid=os.getpid(),
            kinds=self._declared,
            now=now,
            lease_until=now + self._dead_after,
        )
        return now + self._dead_after

    def _watch_others(self) -> None:
        """If others use another kind of membership, find out whether they are silent."""
        self._unchanged = {}
        now, watch = self._clock.now(), LeaseWatch()
        others = self._database.read(partial(ring_store.users_of_other, members=self._kind))
        while others and all(view.lease_until < now for view in others):
            watch.see(others, at=time.monotonic())
            self._unchanged = watch.unchanged(self._dead_after / SECOND, at=time.monotonic())
            if len(self._unchanged) == len(others) or self._stopping:
                break
            time.sleep(self._beat_seconds)
            others = self._database.read(partial(ring_store.users_of_other, members=self._kind))

    @property
    def _kind(self) -> str:
        return "database" if self._members is None else self._members.kind

    def _agree(self, connection: Connection) -> str:
        """The name of the ring, after a check that its workers use the same kind of membership."""
        kind = self._kind
        ring, agreed = ring_store.agree(
            connection, kind, now=self._clock.now(), silent=self._unchanged
        )
        if agreed != kind:
            raise BadMembers(
                f"the workers of {self._database.name} use {agreed} for membership, but this one "
                f"uses {kind}; give all workers the same members=, or stop the others first"
            )
        return ring


class LeaseWatch:
    """The leases of workers, and since when each has not changed, on the monotonic clock.

    A live worker writes another lease with each heartbeat, whatever the database's clock says. So
    the time in a lease does not matter, and that clock may step.
    """

    def __init__(self) -> None:
        self._leases: dict[int, tuple[int, float]] = {}

    def see(self, workers: Iterable[ring_store.WorkerView], *, at: float) -> None:
        """Take over what was just read; workers that are no longer listed are forgotten."""
        before, self._leases = self._leases, {}
        for view in workers:
            lease, since = before.get(view.id, (None, at))
            self._leases[view.id] = view.lease_until, since if lease == view.lease_until else at

    def unchanged(self, seconds: float, *, at: float) -> dict[int, int]:
        """The workers whose lease has been the same for that long, each with its lease."""
        return {
            number: lease
            for number, (lease, since) in self._leases.items()
            if at - since >= seconds
        }


def beat_seconds(dead_after: int) -> float:
    """How often a worker renews its lease."""
    return min(LONGEST_BEAT_SECONDS, dead_after / SECOND / BEATS_PER_LEASE)


def mark_dead(
    database: Database,
    faces: Faces,
    *,
    number: int,
    now: int,
    lease: int | None,
    why: str = "it missed its heartbeat",
) -> int | None:
    """Mark a silent worker left and abandon its rows; how many, or None if it is alive.

    `lease` is its lease as it was watched: if it has another one, it is alive. With None its lease
    does not count: the coordinator has said that it is dead.

    Its claims become due at once and lose their batch, so nothing that it still writes matches.
    Also None if another transaction keeps one of the rows locked: the caller must not miss its own
    heartbeat, and tries again at the next one.
    """

    def work(connection: Connection) -> int | None:
        dialect = database.dialect
        if not ring_store.mark_dead(
            connection, dialect, number=number, now=now, why=why, lease=lease
        ):
            return None
        abandoned = faces.abandon(connection, number)
        ring_store.abandon_buckets(connection, number, now=now)
        return abandoned + ring_store.abandon_claims(connection, number, now=now)

    return database.write_unless_locked(work, locked=None)


def leave(
    database: Database, faces: Faces, *, number: int, now: int, why: str, due: Mapping[str, int]
) -> int | None:
    """Leave and hand back all claims without counting the attempt; None if already marked left.

    The rows are due now, or at the time that `due` has for their kind.
    """

    def work(connection: Connection) -> int | None:
        if not ring_store.leave(connection, database.dialect, number=number, now=now, why=why):
            return None
        handed_back = faces.hand_back(connection, number)
        ring_store.leave_buckets(connection, number)
        return handed_back + ring_store.hand_back(connection, worker=number, now=now, due=due)

    return database.write(work)

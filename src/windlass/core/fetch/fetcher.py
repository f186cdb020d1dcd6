"""The fetcher: gets as many rows as can start soon, and no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from windlass import telemetry
from windlass.core.face import Site
from windlass.core.fetch.claim import Claims, StartMarks, Taken
from windlass.core.limit.gate import Gate
from windlass.core.loop import Loop
from windlass.core.ring.ring import Ring
from windlass.core.run.in_flight import InFlight
from windlass.core.run.ready import Room
from windlass.database.dialect.base import Dialect, Executor
from windlass.value.task import Claimed

SHORTEST_PAUSE = 0.010
LONGEST_PAUSE = 1.0
LOOK_FOR_ABANDONED_AFTER = 1.0
SETTLING_PAUSE = 0.05
PACE_SECONDS = 0.02
WAIT_FOR_RATE = 2.0
# A look for other rows waits this long for the next moments of a rate, instead of a second.
LONGEST_HELD = 1.5
# While rows of other owners are due, look for offers this often.
OFFER_PAUSE = 0.25
# After a hand-off, look for other rows after 20 ms without a new one, and at least every 250 ms.
HANDED_PAUSE = 0.02
LONGEST_HANDED = 0.25
NO_MARKS = StartMarks(None)


class Fetcher(Loop):
    """Claims rows while there is room. While nothing is due, it asks less and less often."""

    name = "fetcher"

    def __init__(self, site: Site, claims: Claims, in_flight: InFlight) -> None:
        super().__init__()
        assert site.hand_off is not None
        self._site = site
        self._claims = claims
        self._in_flight = in_flight
        self._hand_off = site.hand_off
        self._meter = site.registry.meter
        self._looked_at = self._look_at = 0.0
        # Why it woke up: rows may be due, or rows were handed off.
        self._is_asked = self._is_handed = False
        self._pause = SHORTEST_PAUSE
        self._looked_for_abandoned = float("-inf")
        self._abandoned: set[str] = set()
        self._quarantine = Quarantine()
        self.idle = threading.Event()
        # Whether the last fetch had room and found no row.
        self.found_nothing = False

    def tick(self) -> float:
        if self._in_flight.is_halted:
            self._hand_off.clear()
            return SHORTEST_PAUSE * 10
        is_settled = self._claims.tend()
        now = time.monotonic()
        if self._take_handed():
            # Hand-offs come in series: look for other due rows between them.
            self._look_at = min(now + HANDED_PAUSE, self._looked_at + LONGEST_HANDED)
        is_asked, self._is_asked = self._is_asked, False
        is_handed, self._is_handed = self._is_handed, False
        if is_handed and not is_asked and now < self._look_at:
            return self._look_at - now
        pause = self._fetch()
        pause = pause if is_settled else min(pause, SETTLING_PAUSE)
        self._looked_at = time.monotonic()
        self._look_at = self._looked_at + pause
        return pause

    def wake(self) -> None:
        self._is_asked = True
        super().wake()

    def wake_for(self, *, look: bool) -> None:
        """Take the handed-off rows; with `look`, look for other rows as well."""
        if look:
            self.look_now()
        else:
            self._is_handed = True
            super().wake()

    def wake_hungry(self) -> None:
        self._in_flight.is_hungry = self._in_flight.waits_for_lanes = False
        self.wake()

    def _fetch(self) -> float:
        if self._quarantine.is_wanted:
            pause = self._run_alone()
            if pause is not None:
                return pause
        was_empty = self._in_flight.is_empty
        rescued = self._rescue()
        # Set before looking: a run that ends from now on wakes the fetcher, so no room is missed.
        self._in_flight.is_hungry = True
        room = self._in_flight.capacity.room()
        self._claims.help()
        if not room.kinds:
            if was_empty and not rescued:
                self.idle.set()
            return min(LONGEST_PAUSE, self._claims.help_again_in)
        self._in_flight.is_hungry = bool(self._abandoned)
        # Set before looking, for the same reason.
        self._in_flight.waits_for_lanes = self._claims.has_busy_lanes
        self._in_flight.is_claiming = True
        try:
            taken = self._take(room)
            self._add(taken)
        finally:
            self._in_flight.is_claiming = False
        self._in_flight.waits_for_lanes = self._claims.has_busy_lanes
        held_for = taken.held_for
        self.found_nothing = not taken.tasks
        if taken.tasks:
            if len(taken.tasks) > len(taken.marks.starts):
                # Not all of them are planned: more may follow them soon.
                self._pause = SHORTEST_PAUSE
            return 0.0 if held_for is None else PACE_SECONDS
        if taken.some_quarantined and self._quarantine.want():
            return 0.0 if was_empty else SHORTEST_PAUSE
        is_paced = held_for is not None and held_for < WAIT_FOR_RATE
        if was_empty and not (rescued or taken.is_settling or is_paced):
            self.idle.set()
        pause = min(self._rest(taken), self._claims.help_again_in)
        if held_for is None:
            return pause
        if pause >= LONGEST_PAUSE and held_for < LONGEST_HELD:
            # One look then serves both.
            return max(PACE_SECONDS, held_for)
        return max(PACE_SECONDS, min(held_for, pause))

    def _take(self, room: Room) -> Taken:
        began = time.monotonic()
        taken = self._claims.take(room)
        if self._meter is not None:
            self._meter.looked(taken.tasks, time.monotonic() - began)
        return taken

    def _take_handed(self) -> bool:
        if self._quarantine.is_wanted:
            self._hand_off.clear()
            return False
        tasks = self._hand_off.take(self._in_flight.capacity.room())
        # A read may have found a handed-off row first.
        tasks = [task for task in tasks if task.id not in self._in_flight.rows]
        if tasks:
            self._start(tasks)
            self._took("handed_off", tasks)
        return bool(tasks)

    @property
    def wants_quiet(self) -> bool:
        return self._quarantine.is_wanted

    def look_now(self) -> None:
        """A task was enqueued: fetch now, and often for a while."""
        self._claims.look_again()
        self._pause = SHORTEST_PAUSE
        self.wake()

    def _rest(self, taken: Taken) -> float:
        pause = self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        if taken.others_have_due:
            pause = min(pause, OFFER_PAUSE)
        if taken.next_due_in is not None:
            pause = min(pause, taken.next_due_in)
        return max(pause, 0.001)

    def _rescue(self) -> bool:
        """Take over abandoned rows that can start here soon; returns whether there were any."""
        now = time.monotonic()
        is_time = now - self._looked_for_abandoned > LOOK_FOR_ABANDONED_AFTER
        if not (is_time or self._abandoned):
            return False
        room = self._in_flight.capacity.room_for_abandoned()
        kinds: Collection[str] = self._abandoned & room.kinds.keys()
        if is_time:
            kinds = self._in_flight.loads
        if not kinds:
            return False
        taken = self._claims.take_abandoned(kinds, room, alone=False)
        self._abandoned = (self._abandoned - set(kinds)) | taken.left
        if not (taken.tasks or taken.poison):
            self._looked_for_abandoned = now
        if taken.some_quarantined:
            self._quarantine.want()
        self._add(taken)
        self._took("rescued", taken.tasks)
        for task in taken.tasks:
            telemetry.emit("task.rescued", task=task.id, kind=task.kind, lost=task.lost)
        return bool(taken.tasks or taken.poison or self._quarantine.is_wanted)

    def _run_alone(self) -> float | None:
        """Run a quarantined row while nothing else is in flight; returns None to fetch as usual."""
        is_empty = self._in_flight.is_empty
        if self._quarantine.is_running and not is_empty:
            return SHORTEST_PAUSE
        self._quarantine.is_running = False
        if not self._quarantine.may_begin(is_empty=is_empty):
            return None if self._quarantine.stops_waiting() else SHORTEST_PAUSE
        taken = self._claims.take_abandoned(
            self._in_flight.loads, self._in_flight.capacity.room_for_abandoned(), alone=True
        )
        self._add(taken)
        self._took("rescued", taken.tasks)
        if taken.tasks:
            self._quarantine.is_running = True
            return SHORTEST_PAUSE
        self._quarantine.found_none()
        return None

    def _took(self, way: str, rows: Sequence[Claimed]) -> None:
        if self._meter is not None and rows:
            self._meter.took(way, len(rows))

    def _add(self, taken: Taken) -> None:
        for task in taken.poison:
            telemetry.emit("task.poison", task=task.id, kind=task.kind, lost=task.lost)
        if taken.tasks:
            self._start(taken.tasks, taken.marks)
            self._hand_off.forget(taken.tasks)

    def _start(self, tasks: Sequence[Claimed], marks: StartMarks = NO_MARKS) -> None:
        refused: Mapping[int, Exception] = {}
        if any(task.flow_id is not None for task in tasks):
            paused = self._in_flight.paused_owners
            tasks = self._site.faces.hold(self._site, tasks, paused) if paused else tasks
            tasks, refused = self._site.faces.resolve(self._site.database, tasks)
        self._in_flight.add(
            tasks,
            probes=marks.probes,
            refused=refused,
            starts=marks.starts,
            version=marks.version,
            chains=marks.chains,
        )


PATIENCE = 5.0
LEAVE_ALONE_FOR = 30.0
LAST_RESORT = 300.0


class Quarantine:
    """Decides when to stop fetching so that one row can run alone before it can fail as poison.

    A row that ran when its worker died may have killed it, or may only have run beside the row that
    did. So the row gets one more try alone: the worker fetches nothing until it is empty, runs that
    row, and then continues. No row fails as poison because of another row.
    """

    def __init__(self) -> None:
        self.is_running = False
        self._wanted_since: float | None = None
        self._first_wanted: float | None = None
        self._tried_at = float("-inf")

    @property
    def is_wanted(self) -> bool:
        """Whether the fetcher must not take other rows now."""
        return self.is_running or self._wanted_since is not None

    def want(self) -> bool:
        """A row waits to run alone; returns whether to try now."""
        now = time.monotonic()
        if now - self._tried_at < LEAVE_ALONE_FOR:
            return False
        self._wanted_since = now
        self._first_wanted = self._first_wanted or now
        return True

    def may_begin(self, *, is_empty: bool) -> bool:
        """Whether the row may start: the worker is empty, or has not been for too long.

        A worker with long runs may never be empty. As a last resort the row runs beside them, but
        no other row starts beside it.
        """
        first = self._first_wanted or time.monotonic()
        return is_empty or time.monotonic() - first > LAST_RESORT

    def stops_waiting(self) -> bool:
        """Whether to stop waiting for an empty worker, and try again later."""
        since = self._wanted_since
        if since is None or time.monotonic() - since < PATIENCE:
            return False
        self._wanted_since, self._tried_at = None, time.monotonic()
        return True

    def found_none(self) -> None:
        """No row waits to run alone."""
        self._wanted_since = self._first_wanted = None
        self._tried_at = time.monotonic()


class HandOff:
    """Due rows on their way from the finish to the fetcher of the same worker.

    Only rows of this worker's buckets, and of kinds that nothing holds back, are handed off. They
    wait for the fetcher's thread. Only that thread takes rows and releases buckets, so it never
    takes a row twice, nor a row of a bucket that it released. The owner of the bucket reads all
    other due rows.
    """

    def __init__(
        self,
        dialect: Dialect,
        kinds: Collection[str],
        gate: Gate,
        *,
        ring: Ring,
        fetch: Callable[[bool], None],
    ) -> None:
        self._dialect = dialect
        self._kinds = kinds
        self._gate = gate
        self._in_flight = gate.in_flight
        self._ring = ring
        # Wakes the fetcher to take handed-off rows; with True, to read as well.
        self._fetch = fetch
        self._lock = threading.Lock()
        self._rows: dict[int, Claimed] = {}

    def is_near(self, bucket: int) -> bool:
        """Whether this worker owns a bucket."""
        return any(bucket in run for run in self._ring.share.runs)

    def announce(self, executor: Executor, buckets: Collection[int]) -> None:
        """The transaction makes rows of these buckets due: wake their owners, once for each."""
        are_others = self._dialect.wakes and self._ring.has_others
        if are_others and not all(map(self.is_near, buckets)):
            self._dialect.notify(executor, str(self._in_flight.owner))

    def put(self, rows: Collection[Claimed], *, due: int) -> None:
        """Hand off `rows`, which are some of the `due` rows that a transaction made due here."""
        ours = [row for row in rows if self._is_ours(row)]
        if ours:
            with self._lock:
                self._rows |= {row.id: row for row in ours if row.id not in self._in_flight.rows}
            self._fetch(False)
        if len(ours) < due:
            self._fetch(True)

    def take(self, room: Room) -> list[Claimed]:
        """The rows that fit into `room`. A read finds the others."""
        if not self._rows:
            return []
        with self._lock:
            rows, self._rows = self._rows, {}
        left = dict(room.kinds)
        taken: list[Claimed] = []
        for row in rows.values():
            if left.get(row.kind, 0) < 1 or len(taken) >= room.total or not self._is_ours(row):
                continue
            left[row.kind] -= 1
            taken.append(row)
        if len(taken) < len(rows):
            self._fetch(True)
        return taken

    def forget(self, taken: Iterable[Claimed]) -> None:
        """A read found these rows."""
        if self._rows:
            with self._lock:
                for row in taken:
                    self._rows.pop(row.id, None)

    def clear(self) -> None:
        """Drop all rows: their buckets may belong to other workers, which read them."""
        with self._lock:
            self._rows.clear()

    def _is_ours(self, row: Claimed) -> bool:
        """Whether a row that became due may run here without a read."""
        if row.kind not in self._kinds:
            return False
        is_new = not row.lost and (row.due_at or 0) > self._ring.share.careful_to
        return is_new and self._gate.is_free(row.kind) and self.is_near(row.bucket)

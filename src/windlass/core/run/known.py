"""The rows that a worker has, the runs whose outcomes wait to be written, and the room for more."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from windlass.core.run.chain import ChainRoom, chain_room, rows_behind
from windlass.core.run.ready import AHEAD_SECONDS, NO_ROOM, KindLoad, Room
from windlass.value.period import HURRIED
from windlass.value.task import Claimed

if TYPE_CHECKING:
    from windlass.core.run.budget import Budget
    from windlass.core.run.in_flight import InFlight
    from windlass.core.run.ready import Run

MOST_AHEAD = 2_000
MOST_ENDED = 2_000

# How long outcomes of rated kinds wait for others. A crash repeats what was not written.
LINGER_SECONDS = 0.25
# How long, if they are plain visits of rolling items: nobody waits for those.
VISIT_LINGER_SECONDS = 1.0
# No more of them wait.
MOST_LINGER = 200
# How long, if the row is kept: a caller may wait for its result.
KEPT_LINGER_SECONDS = 0.1

RATE_WINDOW = 0.05
SPEED_WINDOW = 0.2
LEAST_BUSY = 0.001


class KnownRows:
    """The rows that a worker has. Call `add` and `forget` under the lock."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._runs: dict[int, Run] = {}
        self._keys: set[tuple[str, str]] = set()
        # Rows forgotten during the current read: it may still see their old state.
        self._let_go: set[int] | None = None

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, number: object) -> bool:
        with self._lock:
            return number in self._runs

    @property
    def ids(self) -> set[int]:
        with self._lock:
            return set(self._runs)

    def begin_read(self) -> None:
        """A read starts; `new` ends it."""
        with self._lock:
            self._let_go = set()

    def new(self, tasks: Sequence[Claimed]) -> list[Claimed]:
        """The rows of a read that were not in flight at any time since it began."""
        with self._lock:
            let_go, self._let_go = self._let_go or set(), None
            return [
                task
                for task in tasks
                if task.id not in self._runs
                and task.id not in let_go
                # A row that replaced a running row waits until that ends.
                and (task.task_key is None or (task.kind, task.task_key) not in self._keys)
            ]

    def let_go(self) -> set[int]:
        """The rows that were forgotten since a read began; ends it."""
        with self._lock:
            let_go, self._let_go = self._let_go or set(), None
            return let_go

    def add(self, run: Run) -> None:
        self._runs[run.task.id] = run
        if run.task.task_key is not None:
            self._keys.add((run.task.kind, run.task.task_key))

    def forget(self, runs: Iterable[Run]) -> None:
        for run in runs:
            if self._runs.get(run.task.id) is not run:
                # The worker has joined again and taken the row again.
                continue
            del self._runs[run.task.id]
            if run.task.task_key is not None:
                self._keys.discard((run.task.kind, run.task.task_key))
            if self._let_go is not None:
                self._let_go.add(run.task.id)


class EndedRuns:
    """The runs whose outcome waits to be written, or is being written. Used under the lock.

    Runs of rated kinds end one by one. Their outcomes wait a moment for each other, so that one
    commit serves several.
    """

    def __init__(self) -> None:
        self.waiting: deque[Run] = deque()
        self.committing: dict[int, Run] = {}
        # When they are written, on the monotonic clock.
        self._write_at = 0.0

    def __len__(self) -> int:
        return len(self.waiting) + len(self.committing)

    def add(self, run: Run, now: float) -> bool:
        """Add a run; returns whether the finish must hear of it."""
        write_at = now + _linger_seconds(run)
        self.waiting.append(run)
        count = len(self.waiting)
        if count == MOST_LINGER:
            self._write_at = now
            return True
        if count > 1 and write_at >= self._write_at:
            return False
        self._write_at = write_at
        return True

    def wait_seconds(self, now: float) -> float:
        """How long the outcomes may wait for more; 0 if they must be written now."""
        return max(0.0, self._write_at - now)

    def take(self, most: int) -> list[Run]:
        count = min(most, len(self.waiting))
        taken = [self.waiting.popleft() for _ in range(count)]
        # What is left, or put back, is written at once.
        self._write_at = 0.0
        self.committing.update((run.task.id, run) for run in taken)
        return taken

    def release(self, runs: list[Run]) -> None:
        """They are no longer being written."""
        for run in runs:
            if self.committing.get(run.task.id) is run:
                del self.committing[run.task.id]


def _linger_seconds(run: Run) -> float:
    """How long an outcome may wait for others; 0 if a caller waits for it."""
    if not run.load.is_rated or run.on_finish or run.has_lane or run.task.flow_id is not None:
        return 0.0
    if run.is_visit:
        # A caller waits for an item that was hurried.
        return 0.0 if run.task.priority == HURRIED else VISIT_LINGER_SECONDS
    return LINGER_SECONDS if run.leaves_nothing else KEPT_LINGER_SECONDS


class Capacity:
    """How many more runs a worker could start soon."""

    def __init__(self, in_flight: InFlight, budget: Budget | None) -> None:
        self._in_flight = in_flight
        self._budget = budget

    @property
    def is_full(self) -> bool:
        """Whether no other run may start here now."""
        is_full = self._in_flight.occupied >= self._in_flight.concurrency
        return is_full or (self._budget is not None and self._budget.free < 1)

    def room(self) -> Room:
        """How many more rows could start soon, and so are worth a claim."""
        flight = self._in_flight
        with flight.lock:
            self._measure()
            if flight.is_halted or len(flight.ended) > MOST_ENDED:
                return NO_ROOM
            rows = [load for load in flight.loads.values() if load.has_rows]
            room = self._room_here([load for load in rows if load.carrier is None])
            elsewhere = [load for load in rows if load.carrier is not None]
            if not elsewhere:
                return room
            kinds = {load.kind.name: load.room_elsewhere() for load in elsewhere}
            kinds = {name: count for name, count in kinds.items() if count > 0}
            return Room(room.total + sum(kinds.values()), {**room.kinds, **kinds})

    def _room_here(self, loads: list[KindLoad]) -> Room:
        """The room for rows of these kinds, whose handlers run in this worker."""
        flight = self._in_flight
        # Queued items of sweeps do not take room from rows: the two take turns.
        # Neither do planned runs, which have not begun to wait for room.
        queued = sum([load.calls_queued for load in loads]) + self._behind()
        speed = sum(load.per_second for load in flight.loads.values() if load.carrier is None)
        free = self._free() - queued
        total = free + int(speed * AHEAD_SECONDS)
        total = min(total, MOST_AHEAD - queued)
        if total < 1 or (queued and total < (total + queued) // 4):
            return NO_ROOM
        room = {load.kind.name: load.room(total, free=free) for load in loads}
        # What is planned starts later, and takes no room from the others.
        total += sum(room[load.kind.name] for load in loads if load.is_planned or load.many)
        return Room(total, {name: count for name, count in room.items() if count > 0})

    def room_for_chains(self, kind: str) -> ChainRoom | None:
        """How many rows of lanes of a kind could start soon, some behind others."""
        flight = self._in_flight
        with flight.lock:
            load = flight.loads[kind]
            return chain_room(load, load.queued + self._behind(load))

    def _behind(self, load: KindLoad | None = None) -> int:
        """How many rows of lanes, of one kind or of all, wait until the one before has ended."""
        flight = self._in_flight
        if not flight.has_chains:
            return 0
        held = (*flight.queues, *flight.running.values())
        chained = [run for run in held if run.chain is not None]
        flight.has_chains = bool(chained)
        return rows_behind([run for run in chained if load is None or run.load is load])

    def room_for_items(self, kind: str) -> int:
        """How many more items of a sweep could start soon."""
        with self._in_flight.lock:
            self._measure()
            load = self._in_flight.loads[kind]
            if self._in_flight.is_halted or not load.is_open:
                return 0
            free = load.limit - load.running - load.queued
            if load.is_rated:
                return load.room_ahead()
            ahead = free + int(load.per_second * AHEAD_SECONDS)
            return max(0, min(ahead, MOST_AHEAD - load.queued))

    def room_for_abandoned(self) -> Room:
        """How many rows of dead workers can start at once, plus a few to follow them.

        No more than that: if this worker dies, every row that it took counts one more loss.
        """
        flight = self._in_flight
        with flight.lock:
            if flight.is_halted:
                return NO_ROOM
            waiting = Counter(
                run.kind.name
                for run in flight.queues
                if run.task.lost and not run.task.is_read and run.keeper is None
            )
            loads = [load for load in flight.loads.values() if load.is_open and load.has_rows]
            free = self._free() - sum(load.calls_of(load.queued) for load in loads)
            total = max(free, flight.concurrency // 4, 1) - waiting.total()
            if total < 1:
                return NO_ROOM
            room = {
                load.kind.name: max(load.limit - load.running - load.queued, load.limit // 4, 1)
                - waiting[load.kind.name]
                for load in loads
            }
            return Room(total, {name: count for name, count in room.items() if count > 0})

    def _free(self) -> int:
        """How many more runs may start, or wait for a slot of the shared budget."""
        free = self._in_flight.concurrency - self._in_flight.occupied
        if self._budget is None:
            return free
        return min(free, max(self._budget.free, self._budget.ahead))

    def _measure(self) -> None:
        flight = self._in_flight
        is_idle = not (flight.running or flight.queues)
        flight.speed.measure(flight.loads.values(), is_idle=is_idle)


class Speedometer:
    """Measures how fast each kind runs; time without work does not count."""

    def __init__(self) -> None:
        self._measured_at = time.monotonic()
        self._busy_since: float | None = None
        self._busy_seconds = 0.0

    def begin(self) -> None:
        """There is work."""
        if self._busy_since is None:
            self._busy_since = time.monotonic()

    def rest(self, now: float) -> None:
        """There is no work any more."""
        if self._busy_since is not None:
            self._busy_seconds += now - self._busy_since
            self._busy_since = None

    def measure(self, loads: Iterable[KindLoad], *, is_idle: bool) -> None:
        """Set the speed of each load, unless it was measured just now."""
        now = time.monotonic()
        if now - self._measured_at < RATE_WINDOW:
            return
        was_busy = self._busy_since is not None
        self.rest(now)
        if was_busy and not is_idle:
            self._busy_since = now
        busy, self._busy_seconds, self._measured_at = self._busy_seconds, 0.0, now
        if not busy:
            return
        # A long measurement counts more than a short one.
        weight = min(1.0, busy / SPEED_WINDOW)
        for load in loads:
            ended = load.ended - load.ended_before
            speed = ended / max(busy, LEAST_BUSY)
            if load.run_seconds:
                # A long run may end just after a measurement began.
                speed = min(speed, load.limit * ended / load.run_seconds)
            if ended:
                load.seconds_of_a_run = load.run_seconds / ended
            load.ended_before, load.run_seconds = load.ended, 0.0
            load.per_second += (speed - load.per_second) * (weight if load.per_second else 1.0)

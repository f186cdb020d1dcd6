"""What a worker holds: rows it took, from the moment they are claimed until they are written down.

One lock guards all of it. A run is queued, running, ended, or gone; whoever moves it first decides,
so a handler that returns at the moment its time is out has exactly one outcome.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from windlass.core.run.budget import Budget
from windlass.core.run.load import AHEAD_SECONDS, NO_ROOM, KindLoad, Room
from windlass.core.run.ready import Keeper, ReadyQueue, Run, State
from windlass.core.task.kind import Kind
from windlass.value.outcome import Outcome
from windlass.value.task import Claimed

T = TypeVar("T")

MOST_AHEAD = 2_000
MOST_ENDED = 2_000
RATE_WINDOW = 0.05
SPEED_WINDOW = 0.2
LEAST_BUSY = 0.001
NOTHING: Mapping[int, Exception] = MappingProxyType({})


class InFlight:
    """All runs of one worker."""

    def __init__(
        self,
        kinds: Mapping[str, Kind],
        concurrency: int,
        *,
        budget: Budget | None = None,
        on_queued: Callable[[bool], None] = lambda _is_async: None,
        on_ended: Callable[[], None] = lambda: None,
        on_hungry: Callable[[], None] = lambda: None,
    ) -> None:
        self.concurrency = concurrency
        self.loads = {name: KindLoad(kind, concurrency) for name, kind in kinds.items()}
        self._budget = budget
        if budget is not None:
            for load in self.loads.values():
                load.budget, load.holder = budget, self
            budget.on_free(self._made_room)
        self.asyncs = ReadyQueue()
        self.syncs = ReadyQueue()
        self.running: dict[int, Run] = {}
        self.ended: deque[Run] = deque()
        self.committing: dict[int, Run] = {}
        self.is_claiming = False
        self.abandoned = 0
        # How many runs have begun, ever.
        self.begun = 0
        self.is_halted = False
        self.owner: int | None = None
        self.good_until = float("inf")
        # Held by whoever writes about runs: an outcome and a mark never meet.
        self.writing = threading.RLock()
        self._lock = threading.Lock()
        self._ids: dict[int, Run] = {}
        self._keys: set[tuple[str, str]] = set()
        # What was let go of since the read under way began, which may still find it as it was.
        self._let_go: set[int] | None = None
        self._measured_at = time.monotonic()
        self._busy_since: float | None = None
        self._busy_seconds = 0.0
        self.is_hungry = False
        # Wake the runners of async or of sync handlers, the finish, and the fetcher.
        self._on_queued = on_queued
        self._on_ended = on_ended
        self._on_hungry = on_hungry

    def begin_read(self) -> None:
        """Rows are about to be read; `new` tells which of them are not held."""
        with self._lock:
            self._let_go = set()

    def new(self, tasks: Sequence[Claimed]) -> list[Claimed]:
        """Of rows that were just read, those that are not held, nor were since the read began."""
        with self._lock:
            let_go, self._let_go = self._let_go or set(), None
            return [
                task
                for task in tasks
                if task.id not in self._ids
                and task.id not in let_go
                # One that took the place of a row that still runs waits for its end.
                and (task.task_key is None or (task.kind, task.task_key) not in self._keys)
            ]

    def add(
        self,
        tasks: Iterable[Claimed],
        *,
        probes: Collection[int] = (),
        refused: Mapping[int, Exception] = NOTHING,
    ) -> None:
        """Queue rows that were just taken, some of them to probe an open breaker.

        Those that are `refused` end with that error instead of being called.
        """
        fed: set[bool] = set()
        with self._lock:
            for task in tasks:
                if self.is_halted or self.owner not in (None, task.worker):
                    # Taken in a life that is over: the rows were given to others.
                    continue
                if task.task_key is not None:
                    self._keys.add((task.kind, task.task_key))
                load = self.loads[task.kind]
                load.queued += 1
                self._ids[task.id] = run = Run(task, load)
                if probes and task.id in probes:
                    run.is_probe = True
                if refused:
                    run.refusal = refused.get(task.id)
                is_async = load.kind.is_async
                (self.asyncs if is_async else self.syncs).put(run)
                fed.add(is_async)
            if fed and self._busy_since is None:
                self._busy_since = time.monotonic()
        for is_async in fed:
            self._on_queued(is_async)

    def add_items(self, runs: Sequence[Run]) -> None:
        """Queue runs of one sweep, which are no rows of their own."""
        load = runs[0].load
        ready = self.asyncs if load.kind.is_async else self.syncs
        with self._lock:
            if self.is_halted or self.owner not in (None, runs[0].task.worker):
                # Reserved in a life that is over: the ranges were given to others.
                return
            load.queued += len(runs)
            for run in runs:
                ready.put(run)
        self._on_queued(load.kind.is_async)

    def undisturbed(self, call: Callable[[], T]) -> T:
        """What `call` returns, while no run ends and none is taken back."""
        with self._lock:
            return call()

    def item_room(self, kind: str) -> int:
        """How many more items of a sweep could start soon."""
        with self._lock:
            self._measure()
            load = self.loads[kind]
            if self.is_halted or not load.is_open:
                return 0
            free = load.limit - load.running - load.queued
            if load.is_rated:
                return 0 if load.queued else max(0, free)
            ahead = free + int(load.per_second * AHEAD_SECONDS)
            return max(0, min(ahead, MOST_AHEAD - load.queued))

    def start_next(self, *, is_async: bool) -> Run | None:
        """The next run that may begin now, marked as running."""
        return self.advance(None, None, is_async=is_async)

    def advance(self, ended: Run | None, outcome: Outcome | None, *, is_async: bool) -> Run | None:
        """Note how the last run of a runner ended, and give it the next one that may begin.

        An outcome of None, or one that comes after its run was decided otherwise, is not noted.
        """
        now = time.monotonic()
        is_first = feed_other = False
        with self._lock:
            if ended is not None and outcome is not None and ended.state is State.RUNNING:
                is_first = self._end(ended, outcome, now)
                other = self.syncs if is_async else self.asyncs
                feed_other = other.queued > 0
            run = self._start(self.asyncs if is_async else self.syncs, now)
            if run is None:
                self._rest(now)
        if ended is not None:
            if feed_other:
                self._on_queued(not is_async)
            if is_first:
                self._on_ended()
            if self.is_hungry:
                self._on_hungry()
        return run

    def renew(self, good_until: float) -> None:
        """What is held may be started until then, on the monotonic clock."""
        had_lapsed = time.monotonic() > self.good_until
        self.good_until = good_until
        if had_lapsed:
            self._made_room()

    def end(self, run: Run, outcome: Outcome) -> bool:
        """Note how `run` ended; False if that was decided before."""
        with self._lock:
            if run.state is not State.RUNNING:
                return False
            is_first = self._end(run, outcome, time.monotonic())
        if is_first:
            self._on_ended()
        self._made_room()
        return True

    def take_ended(self, most: int) -> list[Run]:
        """Ended runs, to be written down now; `written` says that they are."""
        with self._lock:
            count = min(most, len(self.ended))
            taken = [self.ended.popleft() for _ in range(count)]
            self.committing.update((run.task.id, run) for run in taken)
            return taken

    def put_back(self, runs: list[Run]) -> None:
        """Ended runs that could not be written down now."""
        with self._lock:
            self._no_longer_committing(runs)
            self.ended.extendleft(reversed(runs))

    def written(self, runs: list[Run]) -> None:
        """Forget runs that were written down or refused."""
        with self._lock:
            self._no_longer_committing(runs)
            self._forget(runs)
        if self.is_hungry:
            self._on_hungry()

    def drop(self, numbers: Iterable[int]) -> list[Run]:
        """Give up running runs that are no longer ours; whoever runs them must stop."""
        with self._lock:
            dropped = [self.running[number] for number in numbers if number in self.running]
            for run in dropped:
                run.state = State.GONE
                self._stopped_running(run)
            self._forget(dropped)
        for run in dropped:
            if run.runner is not None:
                run.runner.stop(run)
        self._made_room()
        return dropped

    def drop_kept(self, keeper: Keeper) -> None:
        """Give up all runs of one keeper, also those that have not begun."""
        with self._lock:
            for ready in (self.asyncs, self.syncs):
                for run in ready.drop(lambda run: run.keeper is keeper):
                    run.load.queued -= 1
            running = [run.number for run in self.running.values() if run.keeper is keeper]
        self.drop(running)

    def take_back(self, kind: str) -> list[Claimed]:
        """Forget what is queued of a kind; the database still knows it as ours.

        The probe of an open breaker stays, as long as the kind itself may run.
        """
        with self._lock:
            load = self.loads[kind]
            if not load.queued:
                return []
            ready = self.asyncs if load.kind.is_async else self.syncs
            runs = ready.drop(lambda run: run.kind.name == kind)
            load.queued = 0
            stay = [run for run in runs if run.is_probe and load.is_open]
            for run in stay:
                load.queued += 1
                ready.put(run)
            gone = [run for run in runs if run not in stay]
            for run in reversed(gone):
                if run.keeper is not None:
                    run.keeper.taken_back(run)
            self._forget(gone)
            return [run.task for run in gone if run.keeper is None]

    def forget_reads(self, is_meant: Callable[[Claimed], bool]) -> None:
        """Forget what was read and has not begun, where that is so."""
        with self._lock:
            for ready in (self.asyncs, self.syncs):
                gone = ready.drop(lambda run: run.task.is_read and is_meant(run.task))
                for run in gone:
                    run.load.queued -= 1
                self._forget(gone)

    def trim(self, kind: str, most: int) -> None:
        """Forget what was read of a kind and has not begun, but for the first `most`."""
        with self._lock:
            load = self.loads[kind]
            if load.queued <= most:
                return
            ready = self.asyncs if load.kind.is_async else self.syncs
            queued = (run for lane in ready.order for run in ready.queues[lane])
            last = [run for run in queued if run.load is load and run.task.is_read][most:]
            gone = set(map(id, last))
            load.queued -= len(ready.drop(lambda run: id(run) in gone))
            self._forget(last)

    def reads(self, is_meant: Callable[[Claimed], bool]) -> list[Run]:
        """What was read, has begun, and is not written down yet, where that is so."""
        with self._lock:
            held = (*self.running.values(), *self.ended, *self.committing.values())
            return [run for run in held if run.task.is_read and is_meant(run.task)]

    def long_reads(self, began_before: float) -> list[Run]:
        """What was read and has been running since before then."""
        with self._lock:
            running = self.running.values()
            return [run for run in running if run.began < began_before and run.task.is_read]

    def drop_queued(self) -> int:
        """Forget everything that has not begun; the database knows it as ours until we leave."""
        with self._lock:
            dropped = self.asyncs.queued + self.syncs.queued
            for ready in (self.asyncs, self.syncs):
                self._forget(ready.drop(lambda _run: True))
            for load in self.loads.values():
                load.queued = 0
            return dropped

    def drop_all(self) -> list[Run]:
        """Give up everything that is queued or running; outcomes not yet written stay."""
        self.drop_queued()
        return self.drop(list(self.running))

    def knows(self, number: int) -> bool:
        """Whether the row is queued, running or waiting to be written down here."""
        with self._lock:
            return number in self._ids

    @property
    def count(self) -> int:
        """How many rows are held."""
        return len(self._ids)

    @property
    def held(self) -> set[int]:
        """The ids of all rows that are held."""
        with self._lock:
            return set(self._ids)

    def overdue(self, now: float) -> list[Run]:
        """Running runs whose time is out."""
        with self._lock:
            return [
                run
                for run in self.running.values()
                if run.deadline is not None and run.deadline <= now
            ]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is queued, running, or waiting to be written down."""
        with self._lock:
            return not (
                self.running
                or self.ended
                or self.committing
                or self.asyncs.queued
                or self.syncs.queued
            )

    def room(self) -> Room:
        """How many rows could start soon, and are therefore worth claiming."""
        with self._lock:
            self._measure()
            if self.is_halted or len(self.ended) + len(self.committing) > MOST_ENDED:
                return NO_ROOM
            # Items of sweeps that wait keep no row from coming: they take turns.
            items = sum(load.queued for load in self.loads.values() if not load.has_rows)
            queued = self.asyncs.queued + self.syncs.queued - items
            speed = sum(load.per_second for load in self.loads.values())
            free = self._free() - queued
            total = free + int(speed * AHEAD_SECONDS)
            total = min(total, MOST_AHEAD - queued)
            if total < 1 or (queued and total < (total + queued) // 4):
                return NO_ROOM
            room = {
                name: load.room(total, free=free)
                for name, load in self.loads.items()
                if load.has_rows
            }
            return Room(total, {name: count for name, count in room.items() if count > 0})

    def room_for_abandoned(self) -> Room:
        """How many rows of dead workers can begin at once, and some that follow them.

        Its own death would count against what it took over and had not begun.
        """
        with self._lock:
            if self.is_halted:
                return NO_ROOM
            waiting = Counter(
                run.kind.name
                for ready in (self.asyncs, self.syncs)
                for queue in ready.queues.values()
                for run in queue
                if run.task.lost and not run.task.is_read and run.keeper is None
            )
            loads = [load for load in self.loads.values() if load.is_open and load.has_rows]
            free = self._free() - sum(load.queued for load in loads)
            total = max(free, self.concurrency // 4, 1) - waiting.total()
            if total < 1:
                return NO_ROOM
            room = {
                load.kind.name: max(load.limit - load.running - load.queued, load.limit // 4, 1)
                - waiting[load.kind.name]
                for load in loads
            }
            return Room(total, {name: count for name, count in room.items() if count > 0})

    @property
    def is_full(self) -> bool:
        """Whether nothing more may run here now."""
        is_full = len(self.running) >= self.concurrency
        return is_full or (self._budget is not None and self._budget.free < 1)

    def _free(self) -> int:
        """How many more may run, or wait for one of the others to end."""
        free = self.concurrency - len(self.running)
        return (
            free if self._budget is None else min(free, max(self._budget.free, self._budget.ahead))
        )

    def _start(self, ready: ReadyQueue, now: float) -> Run | None:
        if self.is_halted or not ready.order or len(self.running) >= self.concurrency:
            return None
        if now > self.good_until:
            # No heartbeat got through in time: others may have been given these rows.
            return None
        run = ready.take()
        if run is None:
            return None
        load = run.load
        load.queued -= 1
        load.running += 1
        run.state = State.RUNNING
        run.began = now
        if load.timeout is not None:
            run.deadline = now + load.timeout
        self.running[run.number] = run
        self.begun += 1
        return run

    def _end(self, run: Run, outcome: Outcome, now: float) -> bool:
        """Note the outcome; whether it is the first that waits to be written down."""
        run.state = State.ENDED
        run.outcome = outcome
        run.milliseconds = (now - run.began) * 1_000
        self._stopped_running(run)
        if run.keeper is not None:
            run.keeper.landed(run)
            return False
        self.ended.append(run)
        return len(self.ended) == 1

    def _rest(self, now: float) -> None:
        """Note since when there has been nothing to do, if there is nothing."""
        if self._busy_since is None or self.running or self.asyncs.queued or self.syncs.queued:
            return
        self._busy_seconds += now - self._busy_since
        self._busy_since = None

    def _measure(self) -> None:
        """How fast each kind is run while there is something to run; waiting for rows is none."""
        now = time.monotonic()
        if now - self._measured_at < RATE_WINDOW:
            return
        self._rest(now)
        if self._busy_since is not None:
            self._busy_seconds += now - self._busy_since
            self._busy_since = now
        busy, self._busy_seconds, self._measured_at = self._busy_seconds, 0.0, now
        if not busy:
            return
        # What was seen for long counts more than what was seen for a moment.
        weight = min(1.0, busy / SPEED_WINDOW)
        for load in self.loads.values():
            speed = (load.ended - load.ended_before) / max(busy, LEAST_BUSY)
            load.ended_before = load.ended
            load.per_second += (speed - load.per_second) * (weight if load.per_second else 1.0)

    def _made_room(self) -> None:
        """Something ended that no runner waits for: others may begin in its place."""
        for is_async, ready in ((True, self.asyncs), (False, self.syncs)):
            if ready.queued:
                self._on_queued(is_async)
        if self.is_hungry:
            self._on_hungry()

    def _forget(self, runs: Iterable[Run]) -> None:
        for run in runs:
            if self._ids.get(run.task.id) is not run:
                # Another run of the row has been taken since, in another life.
                continue
            del self._ids[run.task.id]
            if run.task.task_key is not None:
                self._keys.discard((run.task.kind, run.task.task_key))
            if self._let_go is not None:
                self._let_go.add(run.task.id)

    def _no_longer_committing(self, runs: list[Run]) -> None:
        for run in runs:
            if self.committing.get(run.task.id) is run:
                del self.committing[run.task.id]

    def _stopped_running(self, run: Run) -> None:
        if self.running.get(run.number) is run:
            del self.running[run.number]
        load = run.load
        load.running -= 1
        load.ended += 1
        if load.budget is not None:
            load.budget.give_back(self, load.kind.name)

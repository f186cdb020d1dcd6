"""The rows in flight: all rows of a worker, from the claim until their outcome is written.

One lock guards them. A run is queued, running, ended, or gone. The first change of its state wins,
so a handler that returns at the moment of its time-out has exactly one outcome.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from sys import modules
from types import MappingProxyType
from typing import TypeVar

from windlass import telemetry
from windlass.core.run.chain import Chain, ChainRoom, chain_room
from windlass.core.run.known import EndedRuns, KnownRows
from windlass.core.run.observe import observer_of
from windlass.core.run.ready import (
    AHEAD_SECONDS,
    NO_ROOM,
    Budget,
    Keeper,
    KindLoad,
    Queues,
    ReadyQueue,
    Room,
    Run,
    Speedometer,
    State,
)
from windlass.core.task.hook import Hooks
from windlass.core.task.kind import Kind
from windlass.core.trace.provider import SIGN
from windlass.value.outcome import Outcome, Snoozed
from windlass.value.task import Claimed

T = TypeVar("T")

MOST_AHEAD = 2_000
MOST_ENDED = 2_000
NOTHING: Mapping[int, Exception] = MappingProxyType({})
NO_STARTS: Mapping[int, int] = MappingProxyType({})
NOTHING_BEHIND: Mapping[int, Chain] = MappingProxyType({})


class InFlight:
    """All runs of one worker."""

    def __init__(
        self,
        kinds: Mapping[str, Kind],
        concurrency: int,
        *,
        budget: Budget | None = None,
        hooks: Hooks | None = None,
        on_queued: Callable[[bool], None] = lambda _is_async: None,
        on_ended: Callable[[], None] = lambda: None,
        on_hungry: Callable[[], None] = lambda: None,
        on_planned: Callable[[], None] = lambda: None,
    ) -> None:
        self.concurrency = concurrency
        self.loads = {name: KindLoad(kind, concurrency) for name, kind in kinds.items()}
        if hooks is not None:
            self.observe(hooks)
        if budget is not None:
            for load in self.loads.values():
                load.budget, load.holder = budget, self
            budget.on_free(self.made_room)
        # Held while outcomes or marks are written, so that the two never overlap.
        self.writing = threading.RLock()
        self.lock = threading.Lock()
        self.rows = KnownRows(self.lock)
        self.queues = Queues()
        self.running: dict[int, Run] = {}
        self.ended = EndedRuns()
        self.is_claiming = False
        self.abandoned = 0
        self.begun = 0
        self.is_halted = False
        self.owner: int | None = None
        self.good_until = float("inf")
        self.speed = Speedometer()
        self.capacity = Capacity(self, budget)
        self.is_hungry = False
        # Counts the changes of rates. Moments that were taken before the last one are not valid.
        self.plan_version = 0
        # Whether the fetcher waits until an outcome is written, because lanes are busy.
        self.waits_for_lanes = False
        # Whether a run may have rows of its lane behind it, and whether such rows were forgotten.
        self.has_chains = self.wakes_for_lanes = False
        # They wake the runners of async or sync handlers, the finish, the fetcher and the pacer.
        self._on_queued = on_queued
        self._on_ended = on_ended
        self._on_hungry = on_hungry
        self._on_planned = on_planned

    def observe(self, hooks: Hooks) -> None:
        """Put around the runs of each kind what is wanted now; for most kinds that is nothing."""
        is_verbose, may_trace = telemetry.log.isEnabledFor(logging.DEBUG), SIGN in modules
        for load in self.loads.values():
            if hooks.middlewares or load.kind.logs or is_verbose or may_trace:
                load.observer = observer_of(load.kind, hooks)

    def add(
        self,
        tasks: Iterable[Claimed],
        *,
        probes: Collection[int] = (),
        refused: Mapping[int, Exception] = NOTHING,
        starts: Mapping[int, int] = NO_STARTS,
        version: int | None = None,
        chains: Mapping[int, Chain] = NOTHING_BEHIND,
    ) -> None:
        """Queue rows that were just taken.

        Rows in `probes` probe an open breaker; rows in `refused` fail with that error, without a
        call of the handler; rows in `starts` start at that moment. If a rate has changed since
        `version`, they need another moment: claimed rows wait for one, others are read again.
        Rows in `chains` have rows of their lane behind them.
        """
        woken: set[bool] = set()
        with self.lock:
            is_valid = version is None or version == self.plan_version
            for task in tasks:
                if not self._belongs_to(task.worker):
                    continue
                run = Run(task, self.loads[task.kind])
                if probes and task.id in probes:
                    run.is_probe = True
                if refused:
                    run.refusal = refused.get(task.id)
                if starts:
                    run.start_at = starts.get(task.id)
                if run.start_at is not None and not is_valid:
                    if not task.is_read:
                        self.rows.add(run)
                        self.queues.put_lapsed(run)
                    continue
                if chains:
                    run.chain = chains.get(task.id)
                self.rows.add(run)
                self.queues.put(run)
                woken.add(run.kind.is_async)
            if woken:
                self.speed.begin()
                self.has_chains |= bool(chains)
        for is_async in woken:
            self._on_queued(is_async)
        if starts:
            self._on_planned()

    def add_items(self, runs: Sequence[Run], *, version: int) -> None:
        """Queue runs of one sweep's items, which have no rows of their own.

        If a rate has changed since `version`, they need other moments.
        """
        with self.lock:
            if not self._belongs_to(runs[0].task.worker):
                return
            for run in runs:
                if run.start_at is not None and version != self.plan_version:
                    self.queues.put_lapsed(run)
                else:
                    self.queues.put(run)
        self._on_queued(runs[0].kind.is_async)
        if runs[0].start_at is not None:
            self._on_planned()

    def release_planned(self, most: int) -> list[int]:
        """Let planned runs start whose moment has come; returns the next moments, up to `most`."""
        with self.lock:
            ready = len(self.queues) - self.queues.planned
            room = max(0, self.concurrency - len(self.running) - ready)
            woken = self.queues.release(time.monotonic_ns() // 1_000, room=room)
            moments = [] if self.queues.plan is None else self.queues.plan.next_at(most)
        for is_async in woken:
            self._on_queued(is_async)
        return moments

    def move_planned(self, load: KindLoad, moments: Sequence[int], *, apart: bool) -> None:
        """Give planned runs other moments, as their rate has changed. Call it under the lock.

        Rows without one that were only read are forgotten; others wait for one.
        """
        plan = self.queues.plan
        if plan is None:
            return
        left = plan.move(load, moments, now=time.monotonic_ns() // 1_000, apart=apart)
        for run in left:
            load.queued -= 1
            if run.task.is_read and run.keeper is None:
                self.rows.forget([run])
            else:
                self.queues.put_lapsed(run)
        self._on_planned()

    def lapsed(self, load: KindLoad) -> tuple[int, int]:
        """How many planned runs of a kind have lost their moments, and how many could start."""
        with self.lock:
            return load.lapsed, load.startable() if load.lapsed else 0

    def plan_again(self, load: KindLoad, moments: Sequence[int]) -> int:
        """Give the runs that lost their moments the next ones; returns how many were given."""
        with self.lock:
            given = moments[: load.lapsed]
            if given and self.queues.plan is not None:
                self.queues.plan.plan_again(load, given)
        if given:
            self._on_planned()
        return len(given)

    def undisturbed(self, call: Callable[[], T]) -> T:
        """Call `call` while no run can end or be taken back; returns its result."""
        with self.lock:
            return call()

    def advance(self, ended: Run | None, outcome: Outcome | None, *, is_async: bool) -> Run | None:
        """Record the outcome of a runner's last run, and return the next run that may start.

        Ignores an outcome of None, and an outcome of a run that is no longer running.
        """
        now = time.monotonic()
        is_first = wake_other = False
        with self.lock:
            if ended is not None and outcome is not None and ended.state is State.RUNNING:
                is_first = self._end(ended, outcome, now)
                other = self.queues.syncs if is_async else self.queues.asyncs
                wake_other = other.queued > 0
            run = self._start(self.queues.asyncs if is_async else self.queues.syncs, now)
            if run is None and not (self.running or self.queues):
                self.speed.rest(now)
        if ended is not None:
            if wake_other:
                self._on_queued(not is_async)
            if is_first:
                self._on_ended()
            if self.is_hungry:
                self._on_hungry()
        if self.wakes_for_lanes:
            self.wakes_for_lanes = False
            self._on_hungry()
        return run

    def renew(self, good_until: float) -> None:
        """Queued runs may start until then, on the monotonic clock."""
        had_lapsed = time.monotonic() > self.good_until
        self.good_until = good_until
        if had_lapsed:
            self.made_room()

    def end(self, run: Run, outcome: Outcome) -> bool:
        """Record the outcome of `run`; returns False if it is no longer running."""
        with self.lock:
            if run.state is not State.RUNNING:
                return False
            is_first = self._end(run, outcome, time.monotonic())
        if is_first:
            self._on_ended()
        self.made_room()
        return True

    def take_ended(self, most: int) -> list[Run]:
        """Ended runs to write now; `written` or `put_back` must follow."""
        with self.lock:
            return self.ended.take(most)

    def put_back(self, runs: list[Run]) -> None:
        """Keep ended runs that could not be written, to write them later."""
        with self.lock:
            self.ended.release(runs)
            self.ended.waiting.extendleft(reversed(runs))

    def written(self, runs: list[Run]) -> None:
        """Forget runs whose outcome was written or refused."""
        with self.lock:
            self.ended.release(runs)
            self.rows.forget(runs)
        if self.is_hungry or self.waits_for_lanes:
            self._on_hungry()

    def drop(self, numbers: Iterable[int]) -> list[Run]:
        """Stop running runs and forget them."""
        with self.lock:
            dropped = [self.running[number] for number in numbers if number in self.running]
            for run in dropped:
                run.state = State.GONE
                self._stopped_running(run)
            self.rows.forget(dropped)
        for run in dropped:
            if run.runner is not None:
                run.runner.stop(run)
        self.made_room()
        return dropped

    def drop_kept(self, keeper: Keeper) -> None:
        """Drop the queued and running runs of one keeper."""
        with self.lock:
            self.queues.drop(lambda run: run.keeper is keeper)
            running = [run.number for run in self.running.values() if run.keeper is keeper]
        self.drop(running)

    def take_back(self, kind: str) -> list[Claimed]:
        """Forget the queued rows of a kind; in the database they stay ours.

        The probe of an open breaker stays queued while the kind may run.
        """
        with self.lock:
            load = self.loads[kind]
            self._cut_chains(load)
            if not load.queued:
                return []
            gone = self.queues.drop(
                lambda run: run.load is load and not (run.is_probe and load.is_open)
            )
            for run in reversed(gone):
                if run.keeper is not None:
                    run.keeper.taken_back(run)
            self.rows.forget(gone)
            return [run.task for run in gone if run.keeper is None]

    def forget_reads(self, is_meant: Callable[[Claimed], bool]) -> None:
        """Forget the rows that were read, have not started, and are meant.

        Forgets the rows behind all that have started, too: they are read again.
        """
        with self.lock:
            self._cut_chains()
            self.rows.forget(self.queues.drop(lambda run: run.task.is_read and is_meant(run.task)))

    def trim(self, kind: str, most: int) -> list[Claimed]:
        """Forget a kind's rows that have not started, except the first `most`; returns them.

        In the database, claimed ones stay ours. Probes, and rows of dead workers, stay queued.
        """
        with self.lock:
            load = self.loads[kind]
            self._cut_chains(load)
            if load.queued <= most:
                return []
            last = [run for run in self.queues if run.load is load][most:]
            gone = {id(run) for run in last if not (run.is_probe or run.task.lost or run.keeper)}
            dropped = self.queues.drop(lambda run: id(run) in gone)
            self.rows.forget(dropped)
            return [run.task for run in dropped]

    def reads(self, is_meant: Callable[[Claimed], bool]) -> list[Run]:
        """The runs of meant rows that were read and have started, until they are written."""
        with self.lock:
            ended = (*self.ended.waiting, *self.ended.committing.values())
            held = (*self.running.values(), *ended)
            return [run for run in held if run.task.is_read and is_meant(run.task)]

    def long_reads(self, began_before: float) -> list[Run]:
        """The runs of rows that were read, and that have been running since before then."""
        with self.lock:
            running = self.running.values()
            return [run for run in running if run.began < began_before and run.task.is_read]

    def drop_queued(self) -> int:
        """Forget all queued rows; in the database they stay ours until we leave."""
        with self.lock:
            self._cut_chains()
            dropped = self.queues.drop(lambda _run: True)
            self.rows.forget(dropped)
            return len(dropped)

    def drop_all(self) -> list[Run]:
        """Drop all queued and running runs; ended runs stay until they are written."""
        self.drop_queued()
        return self.drop(list(self.running))

    def overdue(self, now: float) -> list[Run]:
        """Running runs past their deadline."""
        with self.lock:
            return [
                run
                for run in self.running.values()
                if run.deadline is not None and run.deadline <= now
            ]

    @property
    def is_empty(self) -> bool:
        """Whether no run is queued, running, or waiting to be written."""
        with self.lock:
            return not (self.running or self.ended or self.queues)

    def _belongs_to(self, worker: int) -> bool:
        """Whether rows that were taken as `worker` are still ours.

        A worker that was marked dead joins again under another id; other workers have its old rows.
        """
        return not self.is_halted and self.owner in (None, worker)

    def _start(self, ready: ReadyQueue, now: float) -> Run | None:
        if self.is_halted or not ready.order or len(self.running) >= self.concurrency:
            return None
        if now > self.good_until:
            # The heartbeat is late: other workers may have these rows.
            return None
        run = ready.take()
        while run is not None and run.before is not None and run.chain is not None:
            if not run.chain.is_stale(now):
                break
            self._let_go(run)
            run = ready.take()
        if run is None:
            return None
        load = run.load
        load.queued -= 1
        load.running += 1
        run.state = State.RUNNING
        run.began = now
        for gauge in load.gauges:
            gauge.began()
        if load.timeout is not None:
            run.deadline = now + load.timeout
        self.running[run.number] = run
        self.begun += 1
        return run

    def _end(self, run: Run, outcome: Outcome, now: float) -> bool:
        """Record the outcome; returns whether the finish must hear of it."""
        run.state = State.ENDED
        run.outcome = outcome
        seconds = now - run.began
        run.milliseconds = seconds * 1_000
        run.load.run_seconds += seconds
        if run.load.trips and not (run.is_probe or isinstance(outcome, Snoozed)):
            for trip in run.load.trips:
                trip.ended(outcome)
        for gauge in run.load.gauges:
            gauge.ended(outcome, seconds)
        self._stopped_running(run)
        if run.keeper is not None:
            run.keeper.landed(run)
            return False
        if run.chain is not None:
            self._go_on(run, run.chain, now)
        return self.ended.add(run, now)

    def _go_on(self, run: Run, chain: Chain, now: float) -> None:
        """Let the next row of a lane follow `run`, which has ended; or forget those behind it."""
        run.chain = None
        if chain.goes_on_after(run, now) and self._belongs_to(run.task.worker):
            follower = Run(chain.take(), run.load)
            follower.chain, follower.before = chain, run
            self.rows.add(follower)
            self.queues.put_first(follower)

    def _let_go(self, run: Run) -> None:
        """Forget a run that was about to start, and those behind it: their lane is read again."""
        run.state, run.chain = State.GONE, None
        load = run.load
        load.queued -= 1
        load.give_back_permits()
        if load.budget is not None:
            load.budget.give_back(self, load.kind.name)
        self.rows.forget([run])
        self.wakes_for_lanes = self.waits_for_lanes

    def _cut_chains(self, load: KindLoad | None = None) -> None:
        """Forget the rows behind those that have started, of one kind or of all."""
        if self.has_chains:
            for run in self.running.values():
                if load is None or run.load is load:
                    run.chain = None

    def made_room(self) -> None:
        """Wake the runners: a run ended elsewhere, or permits came, so others may start."""
        for is_async, ready in ((True, self.queues.asyncs), (False, self.queues.syncs)):
            if ready.queued:
                self._on_queued(is_async)
        if self.is_hungry:
            self._on_hungry()

    def _stopped_running(self, run: Run) -> None:
        if self.running.get(run.number) is run:
            del self.running[run.number]
        load = run.load
        load.running -= 1
        load.ended += 1
        load.give_back_permits()
        for gauge in load.gauges:
            gauge.stopped()
        if load.budget is not None:
            load.budget.give_back(self, load.kind.name)


class Capacity:
    """How many more runs a worker could start soon."""

    def __init__(self, in_flight: InFlight, budget: Budget | None) -> None:
        self._in_flight = in_flight
        self._budget = budget

    @property
    def is_full(self) -> bool:
        """Whether no other run may start here now."""
        is_full = len(self._in_flight.running) >= self._in_flight.concurrency
        return is_full or (self._budget is not None and self._budget.free < 1)

    def room(self) -> Room:
        """How many more rows could start soon, and so are worth a claim."""
        flight = self._in_flight
        with flight.lock:
            self._measure()
            if flight.is_halted or len(flight.ended) > MOST_ENDED:
                return NO_ROOM
            # Queued items of sweeps do not take room from rows: the two take turns.
            # Neither do planned runs, which have not begun to wait for room.
            apart = sum(
                load.planned if load.has_rows else load.queued for load in flight.loads.values()
            )
            queued = len(flight.queues) - apart + self._behind()
            speed = sum(load.per_second for load in flight.loads.values())
            free = self._free() - queued
            total = free + int(speed * AHEAD_SECONDS)
            total = min(total, MOST_AHEAD - queued)
            if total < 1 or (queued and total < (total + queued) // 4):
                return NO_ROOM
            room = {
                name: load.room(total, free=free)
                for name, load in flight.loads.items()
                if load.has_rows
            }
            # What is planned starts later, and takes no room from the others.
            total += sum(room[name] for name, load in flight.loads.items() if load.is_planned)
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
        return sum([len(run.chain or ()) for run in chained if load is None or run.load is load])

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
            free = self._free() - sum(load.queued for load in loads)
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
        free = self._in_flight.concurrency - len(self._in_flight.running)
        if self._budget is None:
            return free
        return min(free, max(self._budget.free, self._budget.ahead))

    def _measure(self) -> None:
        flight = self._in_flight
        is_idle = not (flight.running or flight.queues)
        flight.speed.measure(flight.loads.values(), is_idle=is_idle)

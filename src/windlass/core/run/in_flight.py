"""The rows in flight: all rows of a worker, from the claim until their outcome is written.

One lock guards them. A run is queued, running, ended, or gone. The first change of its state wins,
so a handler that returns at the moment of its time-out has exactly one outcome.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from sys import modules
from types import MappingProxyType
from typing import TypeVar

from windlass import telemetry
from windlass.core.run.budget import Budget
from windlass.core.run.chain import Chain
from windlass.core.run.contract import Keeper, RunCarrier
from windlass.core.run.known import Capacity, EndedRuns, KnownRows, Speedometer
from windlass.core.run.many.together import ListedRun, Lists
from windlass.core.run.observe import observer_of
from windlass.core.run.ready import (
    KindLoad,
    Queues,
    ReadyQueue,
    Run,
    State,
)
from windlass.core.task.hook import Hooks
from windlass.core.task.kind import Kind
from windlass.core.task.progress import ReportedProgress, progress_of
from windlass.core.trace.provider import SIGN
from windlass.value.outcome import Outcome, Snoozed
from windlass.value.task import Claimed

T = TypeVar("T")

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
        is_patient: bool = True,
    ) -> None:
        self.concurrency = concurrency
        self.loads = {name: KindLoad(kind, concurrency) for name, kind in kinds.items()}
        if not is_patient:
            # A worker that ends when nothing is due lets no list wait for company.
            for load in self.loads.values():
                load.gathers = False
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
        self.queues = Queues(self._wake_runners)
        self.running: dict[int, Run] = {}
        # How many of them run elsewhere, and use no slot of this worker.
        self.carried = 0
        self.lists = Lists(self)
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
        # The paused kinds that own rows of other kinds, such as flows: these do not start either.
        self.paused_owners: frozenset[str] = frozenset()
        # They wake the runners of async or sync handlers, the finish, the fetcher and the pacer.
        self._on_queued = on_queued
        self._on_ended = on_ended
        self._on_hungry = on_hungry
        self._on_planned = on_planned

    def _wake_runners(self, is_async: bool) -> None:
        self._on_queued(is_async)

    def observe(self, hooks: Hooks) -> None:
        """Put around the runs of each kind what is wanted now; for most kinds that is nothing."""
        is_verbose, may_trace = telemetry.log.isEnabledFor(logging.DEBUG), SIGN in modules
        for load in self.loads.values():
            if hooks.middlewares or load.kind.logs or is_verbose or may_trace:
                load.observer = observer_of(load.kind, hooks)

    def carry(self, kind: str, carrier: RunCarrier, *, window: int) -> None:
        """Let a carrier run the handlers of a kind, at first up to `window` at once."""
        self.loads[kind].carry_by(carrier, window)
        if carrier.ready not in self.queues.carried:
            self.queues.carried.append(carrier.ready)

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
        woken: set[ReadyQueue] = set()
        with self.lock:
            is_valid = version is None or version == self.plan_version
            for task in tasks:
                if not self._belongs_to(task.worker):
                    continue
                run = _run_of(task, self.loads[task.kind])
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
                woken.add(self.queues.put(run))
            if woken:
                self.speed.begin()
                self.has_chains |= bool(chains)
                woken |= self._release()
        self._queued(woken, has_planned=bool(starts))

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
            woken = self._release() | {self.queues.of(runs[0])}
        self._queued(woken, has_planned=runs[0].start_at is not None)

    def _queued(self, woken: Collection[ReadyQueue], *, has_planned: bool) -> None:
        """Wake those who start what was queued."""
        for ready in woken:
            ready.wake()
        if has_planned:
            self._on_planned()

    def release_planned(self, most: int) -> list[int]:
        """Let planned runs start whose moment has come; returns the next moments, up to `most`."""
        with self.lock:
            woken = self._release()
            now, plan = time.monotonic_ns() // 1_000, self.queues.plan
            moments = [] if plan is None else plan.next_at(now, most)
        for ready in woken:
            ready.wake()
        return moments

    def release_company(self) -> float | None:
        """Let runs start that have waited for company; returns when the next have."""
        with self.lock:
            woken, company = self._release(), self.queues.company
            next_at = None if company is None else company.next_at()
        for ready in woken:
            ready.wake()
        return next_at

    def _release(self) -> set[ReadyQueue]:
        return self.queues.release(free=self.concurrency - self.occupied)

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

    def undisturbed(self, call: Callable[[], T]) -> T:
        """Call `call` while no run can end or be taken back; returns its result."""
        with self.lock:
            return call()

    def advance(self, ended: Run | None, outcome: Outcome | None, *, is_async: bool) -> Run | None:
        """Record the outcome of a runner's last run, and return the next run that may start.

        Ignores an outcome of None, and an outcome of a run that is no longer running.
        """
        now = time.monotonic()
        is_first = wake_other = lacks_moment = False
        with self.lock:
            if ended is not None and outcome is not None and ended.state is State.RUNNING:
                is_first = self._end(ended, outcome, now)
                free = self.concurrency - self.occupied
                lacks_moment = self.queues.go_on(ended.load, free=free)
                other = self.queues.syncs if is_async else self.queues.asyncs
                wake_other = other.queued > 0
            run = self._start(self.queues.asyncs if is_async else self.queues.syncs, now)
            if run is None and not (self.running or self.queues):
                self.speed.rest(now)
        if ended is not None:
            if wake_other:
                (self.queues.syncs if is_async else self.queues.asyncs).wake()
            for ready in self.queues.carried:
                # It may wait for a permit that the ended run had.
                if ready.queued:
                    ready.wake()
            if is_first:
                self._on_ended()
            if lacks_moment:
                self._on_planned()
            if self.is_hungry:
                self._on_hungry()
        if self.wakes_for_lanes:
            self.wakes_for_lanes = False
            self._on_hungry()
        if self.lists.has_split:
            self.lists.has_split = False
            self.made_room()
        return run

    def start(self, ready: ReadyQueue, most: int) -> list[Run]:
        """The next runs of a carrier that may start, up to `most`."""
        now = time.monotonic()
        started: list[Run] = []
        with self.lock:
            while len(started) < most and (run := self._start(ready, now)) is not None:
                started.append(run)
        return started

    def renew(self, good_until: float) -> None:
        """Queued runs may start until then, on the monotonic clock."""
        had_lapsed = time.monotonic() > self.good_until
        self.good_until = good_until
        if had_lapsed:
            self.made_room()

    def end(self, run: Run, outcome: Outcome) -> bool:
        """Record the outcome of `run`; returns False if it is no longer running."""
        return self.end_all([(run, outcome)]) == 1

    def end_all(self, outcomes: Iterable[tuple[Run, Outcome]]) -> int:
        """Record the outcomes of runs that are still running; returns how many are."""
        now, ended, is_first = time.monotonic(), 0, False
        with self.lock:
            for run, outcome in outcomes:
                if run.state is State.RUNNING:
                    is_first |= self._end(run, outcome, now)
                    ended += 1
        if is_first:
            self._on_ended()
        if ended:
            self.made_room()
        return ended

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
            dropped += self._drop(dropped)
            self.rows.forget(dropped)
        for run in dropped:
            if run.runner is not None:
                run.runner.stop(run)
        self.made_room()
        return dropped

    def _drop(self, runs: Sequence[Run]) -> list[Run]:
        """Stop running runs; returns the calls of lists that have no row any more."""
        empty: list[Run] = []
        for run in runs:
            if run.state is State.GONE:
                continue
            run.state = State.GONE
            if not isinstance(run, ListedRun):
                self._stopped_running(run)
                continue
            call = self.lists.drop(run)
            if call is not None and call.state is State.RUNNING:
                empty += [call, *self._drop([call])]
        return empty

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

    def take_back_nodes(self) -> list[Claimed]:
        """Forget the queued nodes of flows; in the database they stay ours."""
        with self.lock:
            gone = self.queues.drop(lambda run: run.task.flow_id is not None and not run.is_probe)
            self.rows.forget(gone)
            return [run.task for run in gone]

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

    def reporting(self) -> list[tuple[Run, ReportedProgress]]:
        """The runs whose handlers say how far they are; only those with written claims."""
        with self.lock:
            running = [
                run
                for run in self.running.values()
                if run.kept is not None and not run.task.is_read and run.keeper is None
            ]
        pairs = ((run, progress_of(run)) for run in running)
        return [(run, found) for run, found in pairs if found is not None]

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

    def overdue(self, now: float) -> tuple[list[Run], float]:
        """Running runs past their deadline, and the first deadline of the others."""
        with self.lock:
            timed = [
                (run.deadline, run) for run in self.running.values() if run.deadline is not None
            ]
        later = (deadline for deadline, _ in timed if deadline > now)
        return [run for deadline, run in timed if deadline <= now], min(later, default=inf)

    @property
    def occupied(self) -> int:
        """How many slots of this worker are in use."""
        return len(self.running) - self.carried - self.lists.listed

    @property
    def is_empty(self) -> bool:
        """Whether no run is queued, running, or waiting to be written."""
        with self.lock:
            return not (self.running or self.ended or self.queues)

    @property
    def has_limits(self) -> bool:
        """Whether a kind has a breaker, or a limit that holds for the whole fleet."""
        return any(
            load.breakers or load.kind.downstreams or load.kind.total_concurrency is not None
            for load in self.loads.values()
        )

    def _belongs_to(self, worker: int) -> bool:
        """Whether rows that were taken as `worker` are still ours.

        A worker that was marked dead joins again under another id; other workers have its old rows.
        """
        return not self.is_halted and self.owner in (None, worker)

    def _start(self, ready: ReadyQueue, now: float) -> Run | None:
        if self.is_halted or not ready.order:
            return None
        if self.occupied >= self.concurrency and ready not in self.queues.carried:
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
        if load.many is not None and isinstance(run, ListedRun):
            run = self.lists.begin(ready, run, now)
        else:
            load.queued -= 1
        load.running += 1
        run.state = State.RUNNING
        run.began = now
        for gauge in load.gauges:
            gauge.began()
        if load.timeout is not None:
            run.deadline = now + load.timeout
        self.running[run.number] = run
        self.carried += load.carrier is not None
        self.begun += 1
        return run

    def _end(self, run: Run, outcome: Outcome, now: float) -> bool:
        """Record the outcome; returns whether the finish must hear of it."""
        run.state = State.ENDED
        run.outcome = outcome
        seconds = now - run.began
        run.milliseconds = seconds * 1_000
        run.load.run_seconds += seconds
        is_list = run.load.many is not None
        if run.load.trips and not (is_list or run.is_probe or isinstance(outcome, Snoozed)):
            for trip in run.load.trips:
                trip.ended(outcome)
        for gauge in run.load.gauges:
            gauge.ended(outcome, seconds)
        self._stopped_running(run)
        if run.keeper is not None:
            return bool(run.keeper.landed(run))
        if run.chain is not None:
            self._go_on(run, run.chain, now)
        return self.ended.add(run, now)

    def _go_on(self, run: Run, chain: Chain, now: float) -> None:
        """Let the next row of a lane follow `run`, which has ended; or forget those behind it."""
        run.chain = None
        if not self._belongs_to(run.task.worker):
            return
        row = chain.next_after(run, now)
        if row is not None:
            follower = Run(row, run.load)
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
        for ready in self.queues.all:
            if ready.queued:
                ready.wake()
        if self.queues.plan is not None and self.queues.plan.is_waiting:
            self._on_planned()
        if self.is_hungry:
            self._on_hungry()

    def _stopped_running(self, run: Run) -> None:
        if self.running.get(run.number) is run:
            del self.running[run.number]
        load = run.load
        self.carried -= load.carrier is not None
        load.running -= 1
        load.ended += 1
        load.give_back_permits()
        for gauge in load.gauges:
            gauge.stopped()
        if load.budget is not None:
            load.budget.give_back(self, load.kind.name)


def _run_of(task: Claimed, load: KindLoad) -> Run:
    return Run(task, load) if load.many is None else ListedRun(task, load)

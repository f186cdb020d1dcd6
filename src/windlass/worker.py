"""A worker: the loops, wired together, from joining to leaving."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from windlass import telemetry
from windlass.clock import SECOND, Clock
from windlass.core.cron import discover as cron
from windlass.core.fetch.claim import Claims
from windlass.core.fetch.fetcher import Fetcher
from windlass.core.fetch.handoff import resolved
from windlass.core.fetch.one import OneClaim
from windlass.core.fetch.owner import OwnersRead
from windlass.core.finish.finish import Finish
from windlass.core.limit.breaker import Breakers
from windlass.core.limit.gate import SwitchGate
from windlass.core.limit.rate import Rates
from windlass.core.limit.switch import Switchboard
from windlass.core.loop import Loop
from windlass.core.maintenance import Maintenance
from windlass.core.ring.heartbeat import Heartbeat
from windlass.core.ring.mark import Mark
from windlass.core.ring.member import Members, connect
from windlass.core.ring.ring import Ring
from windlass.core.ring.store.worker import Kinds, WorkerView
from windlass.core.run.budget import Budget
from windlass.core.run.in_flight import InFlight
from windlass.core.run.runner import Coroutines, Threads, Watch
from windlass.core.task.kind import Kind, Registry
from windlass.core.wake.bell import Bell, Listener
from windlass.database.database import Database
from windlass.database.dialect.base import Executor
from windlass.database.number import Numbers
from windlass.external.engine.poll import Poll
from windlass.flow.engine import Place
from windlass.sweep.engine.round import discover, everywhere, take_over
from windlass.sweep.engine.sweeper import Sweeper
from windlass.value.payload import LARGEST_PAYLOAD
from windlass.value.pulse import Pulse
from windlass.value.task import Claimed

LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class WorkerSettings:
    """How a worker works. Times are microseconds."""

    concurrency: int = 100
    lease: int = 30 * SECOND
    dead_after: int = 5 * SECOND
    grace: int = 30 * SECOND
    until_idle: bool = False
    # Whether it only tries again what sweeps have set aside.
    only_retries: bool = False
    # What its members know each other by: a URL of etcd or ZooKeeper, or the database.
    members: str | None = None
    max_payload: int = LARGEST_PAYLOAD


class Only(NamedTuple):
    """The one row that a worker is there for, and if no other worker takes any of its kind."""

    task: int
    is_rested: bool = False


@dataclass(frozen=True)
class Among:
    """What a worker of one shard has in common with those of the others."""

    budget: Budget
    # The part of a rate that this shard may use.
    share: float
    # Whether the standing row of a cron belongs here.
    where: Callable[[Kind], cron.Belongs]
    # Whether a sweep belongs here.
    has_sweep: Callable[[Kind], bool]


class Worker:
    """Runs tasks of the given kinds until it is stopped, or until nothing is due."""

    def __init__(
        self,
        database: Database,
        registry: Registry,
        kinds: Mapping[str, Kind],
        clock: Clock,
        numbers: Numbers,
        bell: Bell,
        settings: WorkerSettings,
        *,
        only: Only | None = None,
        among: Among | None = None,
    ) -> None:
        self._database = database
        self._registry = registry
        self._kinds = kinds
        self._clock = clock
        self._numbers = numbers
        self._bell = bell
        self._settings = settings
        # The one row that it is there for, if it is no worker for everybody.
        self._only = only
        self._among = among
        self._stop_asked = 0
        self.left_cleanly = False
        self._wake: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.in_flight = InFlight(
            kinds, settings.concurrency, None if among is None else among.budget
        )
        place = Place(database, clock, numbers, registry, settings.max_payload)
        for load in self.in_flight.loads.values():
            load.place = place
        self.breakers = Breakers(database, clock, numbers, worker=lambda: self.heartbeat.id)
        self.finish = Finish(database, self.in_flight, clock, numbers, breakers=self.breakers)
        self.heartbeat = Heartbeat(
            database,
            self.in_flight,
            clock,
            numbers,
            kinds=Kinds(serves=list(kinds) if only is None else [], declares=list(registry.kinds)),
            due=self._due,
            lease=settings.lease,
            dead_after=settings.dead_after,
            flush=self._flush,
            see=self._see,
            members=self._members(),
        )
        self.ring = self._ring()
        rates = Rates(database, share=1.0 if among is None else among.share)
        self.fetcher = self._fetcher(rates)
        self.switchboard = Switchboard(
            database, self.in_flight, clock, rates, self.breakers, opened=self.fetcher.look_now
        )
        self.sweeper = self._sweeper(rates)
        self.polls: list[Poll] = []
        self.coroutines = Coroutines(self.in_flight)
        self.threads = Threads(self.in_flight)
        self.in_flight.on_queued = self._on_queued
        # Others may have more than they can do: have them know soon.
        self.heartbeat.idle = self._idle

    async def run(self) -> None:
        """Join, work, and leave."""
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        await asyncio.to_thread(self._begin)
        loops = self._loops()
        stop_listening = self._bell.listen(self._look_now)
        self.coroutines.start()
        for loop in loops:
            loop.start()
        try:
            await self._until_stopped()
        finally:
            stop_listening()
            await self._end(loops)

    def stop(self) -> None:
        """Finish what runs within the grace, then leave; asked twice, leave at once."""
        self._stop_asked += 1
        if self._loop is not None and self._wake is not None:
            self._loop.call_soon_threadsafe(self._wake.set)

    def leave(self, why: str) -> None:
        """Hand back what is still held, and go, without waiting for anything."""
        self.heartbeat.leave(why)

    @property
    def is_stopping(self) -> bool:
        return self._stop_asked > 0

    @property
    def stops_at_once(self) -> bool:
        return self._stop_asked > 1

    def pulse(self) -> Pulse:
        """How it is doing now."""
        in_flight, sweeper = self.in_flight, self.sweeper
        return Pulse(
            running=len(in_flight.running),
            queued=in_flight.asyncs.queued + in_flight.syncs.queued,
            done=self.finish.done + (0 if sweeper is None else sweeper.done),
            failed=self.finish.failed + (0 if sweeper is None else sweeper.failed),
            abandoned=in_flight.abandoned,
        )

    def _ring(self) -> Ring:
        return Ring(
            self._database,
            self.in_flight,
            self._clock,
            self._numbers,
            kinds=self._kinds,
            lease=self._settings.lease,
            changed=self._on_ring_changed,
        )

    def _members(self) -> Members | None:
        url = self._settings.members
        if url is None or self._only is not None:
            return None
        return connect(url, dead_after=self._settings.dead_after)

    def _see(self, me: int, workers: Sequence[WorkerView]) -> None:
        """What the ring and the others make of who is there."""
        if self._only is None:
            self.ring.see(me, workers)

    def _idle(self) -> int:
        """How many more rows could start soon than there are; 0 if there are enough."""
        return self.in_flight.room().total if self.fetcher.found_nothing else 0

    def _fetcher(self, rates: Rates) -> Fetcher:
        handed = self.finish.hand_off
        gate = SwitchGate(self.in_flight, rates, self.breakers)
        handed.is_ours = partial(self._is_ours, gate=gate)
        handed.is_near = self._is_near
        handed.wake_others = self._wake_others
        resolve = partial(resolved, self._database)
        return Fetcher(self._claims(rates), self.in_flight, handed=handed, resolve=resolve)

    def _wake_others(self, executor: Executor) -> None:
        """Nodes of others are due: one notification for each finish, at once."""
        dialect = self._database.dialect
        if dialect.wakes and self.ring.has_others:
            dialect.notify(executor, str(self.heartbeat.id))

    def _is_ours(self, row: Claimed, *, gate: SwitchGate) -> bool:
        """Whether a row that is due now may run here without being asked for."""
        if self._only is not None or row.kind not in self._kinds:
            return False
        is_new = not row.lost and (row.due_at or 0) > self.ring.share.careful_to
        return is_new and gate.is_free(row.kind) and self._is_near(row.bucket)

    def _is_near(self, bucket: int) -> bool:
        """Whether a bucket is one of ours."""
        return any(bucket in run for run in self.ring.share.runs)

    def _sweeper(self, rates: Rates) -> Sweeper | None:
        """What walks over sources, if this worker has any to walk over."""
        among = self._among
        kinds = {
            name: kind
            for name, kind in self._kinds.items()
            if kind.sweep is not None and (among is None or among.has_sweep(kind))
        }
        if self._only is not None or not kinds:
            return None
        return Sweeper(
            database=self._database,
            kinds=kinds,
            clock=self._clock,
            numbers=self._numbers,
            in_flight=self.in_flight,
            gate=SwitchGate(self.in_flight, rates, self.breakers),
            breakers=self.breakers,
            worker=lambda: self.heartbeat.id,
            is_quiet=lambda: self.fetcher.wants_quiet,
            once=self._settings.until_idle,
            only_retries=self._settings.only_retries,
        )

    @property
    def is_idle(self) -> bool:
        """Whether nothing is due here now."""
        is_swept = self.sweeper is None or self.sweeper.is_idle
        is_polled = all(poll.is_idle for poll in self.polls)
        return self.fetcher.idle.is_set() and is_swept and is_polled

    def look_again(self) -> None:
        """Be idle only after another look."""
        self.fetcher.idle.clear()
        self.fetcher.look_now()
        if self.sweeper is not None:
            self.sweeper.look_again()
        for poll in self.polls:
            poll.look_again()

    @property
    def problem(self) -> Exception | None:
        """What has kept it from going on for a while."""
        swept = None if self.sweeper is None else self.sweeper.problem or self.sweeper.trouble
        polled = next((poll.problem for poll in self.polls if poll.problem is not None), None)
        return self.fetcher.problem or swept or polled

    def _look_now(self) -> None:
        self.fetcher.look_now()
        if self.sweeper is not None:
            self.sweeper.look_soon()

    def _on_ring_changed(self) -> None:
        self.fetcher.wake()

    def _due(self, now: int) -> dict[str, int]:
        """When rows are due that are given back, of kinds that have a tick: before the last one."""
        return {
            name: kind.due_until(now)
            for name, kind in self._kinds.items()
            if kind.period is not None and kind.period.tick is not None
        }

    def _claims(self, rates: Rates) -> Claims:
        if self._only is not None:
            return OneClaim(
                self._database,
                self._clock,
                self._numbers,
                self._only.task,
                worker=lambda: self.heartbeat.id,
                lease=self._settings.lease,
                max_lost=max(kind.max_lost for kind in self._kinds.values()),
                is_rested=self._only.is_rested,
            )
        return OwnersRead(
            self._database,
            self._kinds,
            self._clock,
            self._numbers,
            self.in_flight,
            self.ring,
            lease=self._settings.lease,
            dead_after=self._settings.dead_after,
            fail_as_poison=self.finish.fail_as_poison,
            gate=SwitchGate(self.in_flight, rates, self.breakers),
            once=self._settings.until_idle,
            on_news=self.heartbeat.wake,
        )

    def _begin(self) -> None:
        if self._only is None:
            where = cron.everywhere if self._among is None else self._among.where
            kinds = self._registry.kinds
            cron.discover(self._database, kinds, self._clock, self._numbers, where=where)
            has_sweep = everywhere if self._among is None else self._among.has_sweep
            discover(self._database, kinds, self._clock, is_here=has_sweep)
            for kind in kinds.values():
                if kind.sweep is not None and has_sweep(kind):
                    take_over(self._database, self._numbers, self._clock, kind)
            self.switchboard.obey()
        self.heartbeat.join_ring()

    def _loops(self) -> list[Loop]:
        loops: list[Loop] = [
            self.finish,
            self.heartbeat,
            Watch(self.in_flight, stop_if_lease_ended=self.heartbeat.stop_if_lease_ended),
            Mark(
                self._database,
                self.in_flight,
                self._clock,
                self._numbers,
                lease=self._settings.lease,
            ),
            self.fetcher,
        ]
        if self._only is None:
            loops.append(self.switchboard)
        if self.sweeper is not None:
            loops.append(self.sweeper)
        if self._only is None:
            self.polls = [self._poll(kind) for kind in self._kinds.values() if kind.system]
            loops += self.polls
        if not self._settings.until_idle:
            loops.append(Maintenance(self._database, self._clock))
            if self._database.dialect.wakes:
                listener = Listener(self._database, self._look_now, me=lambda: self.heartbeat.id)
                loops.append(listener)
        return loops

    def _poll(self, kind: Kind) -> Poll:
        return Poll(
            self._database,
            kind,
            self._clock,
            self.in_flight,
            self.ring,
            self.breakers,
            look_now=self._look_now,
        )

    def _on_queued(self, is_async: bool) -> None:
        (self.coroutines if is_async else self.threads).wake()

    async def _until_stopped(self) -> None:
        assert self._wake is not None
        # Among others, being idle is not the end: they may enqueue for this shard.
        if self._settings.until_idle and self._among is None:
            await self._until_idle()
            return
        while not self.is_stopping:
            await self._wake.wait()
            self._wake.clear()

    async def _until_idle(self) -> None:
        """Until nothing is due; with sweeps, also not after another look at everything.

        A task may have started a round, and an item may have enqueued a task.
        """
        begun = -1
        while not self.is_stopping:
            if self.problem is not None:
                # A worker waits for better times; a script wants to know.
                raise self.problem
            if not self.is_idle:
                await asyncio.sleep(0.001)
            elif (self.sweeper is None and not self.polls) or begun == self.in_flight.begun:
                return
            else:
                begun = self.in_flight.begun
                self.look_again()

    async def _end(self, loops: list[Loop]) -> None:
        """Stop claiming, let what runs finish, write it down, hand back the rest, and go."""
        if not self._settings.until_idle:
            telemetry.emit(
                "worker.stopping", worker=self.heartbeat.id, running=len(self.in_flight.running)
            )
        self.fetcher.stop()
        if self.sweeper is not None:
            self.sweeper.stop()
        deadline = time.monotonic() + self._settings.grace / SECOND
        for loop in (self.fetcher, self.sweeper):
            # A tick that still runs could add to what is dropped here.
            while loop is not None and not await asyncio.to_thread(loop.join, 0.2):
                # A claim that hangs is not waited for; what it brings is handed back with the rest.
                if self._stop_asked > 1 or time.monotonic() > deadline:
                    break
        self.in_flight.drop_queued()
        await self._let_finish(deadline)
        self.threads.stop()
        self.in_flight.drop(list(self.in_flight.running))
        await self.coroutines.stop()
        await asyncio.to_thread(self._leave, loops)

    async def _let_finish(self, deadline: float) -> None:
        while self.in_flight.running and self._stop_asked < 2 and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_SECONDS)

    def _leave(self, loops: list[Loop]) -> None:
        for loop in loops:
            loop.stop()
        self.finish.join(timeout=10.0)
        self.heartbeat.join(timeout=10.0)
        if self.sweeper is not None:
            self.sweeper.join(timeout=10.0)
            self.sweeper.close()
        try:
            self._flush()
            if self.sweeper is not None:
                self.sweeper.release_all()
            self.heartbeat.leave("stopped")
            self.left_cleanly = True
        except Exception as problem:
            telemetry.emit("worker.crashed", worker=self.heartbeat.id, error=str(problem)[:300])

    def _flush(self) -> None:
        while self.in_flight.ended:
            self.finish.flush()

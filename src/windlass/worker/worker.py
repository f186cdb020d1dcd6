"""A worker: all loops of the kernel, from joining to leaving."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.cron import discover as cron
from windlass.core.cron.discover import Belongs
from windlass.core.face import FaceLoop, Site, Workplace
from windlass.core.fetch.claim import Claims, OneClaim, Only
from windlass.core.fetch.fetcher import Fetcher, HandOff
from windlass.core.fetch.owner import OwnersRead
from windlass.core.finish.finish import Finish
from windlass.core.limit.adapt.adapter import Adapter
from windlass.core.limit.gate import NOWHERE, Breakers, Gate, Rates
from windlass.core.limit.permit.account import Permits
from windlass.core.limit.permit.guest import Place
from windlass.core.limit.permit.pools import make_limits
from windlass.core.limit.permit.store import MIGRATION as PERMITS
from windlass.core.limit.switch import Switchboard
from windlass.core.loop import Loop
from windlass.core.maintenance import Maintenance
from windlass.core.meter import WorkerState
from windlass.core.ring.heartbeat import Heartbeat
from windlass.core.ring.member import connect
from windlass.core.ring.ring import Mark, Ring
from windlass.core.ring.store import Kinds
from windlass.core.run.budget import Budget
from windlass.core.run.in_flight import InFlight
from windlass.core.run.many.gather import Gatherer
from windlass.core.run.permit import Pool
from windlass.core.run.runner import Coroutines, Pacer, Threads, Watch
from windlass.core.run.trip import Trip
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind, Registry
from windlass.core.wake.bell import listener_of
from windlass.database.version import VERSION
from windlass.errors import WindlassError
from windlass.value.metric import Pulse
from windlass.value.payload import LARGEST_PAYLOAD


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of a worker. Times are microseconds."""

    concurrency: int = 100
    lease: int = 30 * SECOND
    dead_after: int = 5 * SECOND
    grace: int = 30 * SECOND
    until_idle: bool = False
    # Whether its faces only do what an operator asked for, such as a retry of failed items.
    only_asked: bool = False
    # A URL of etcd or ZooKeeper for membership; by default the database.
    members: str | None = None
    max_payload: int = LARGEST_PAYLOAD
    # Whether a guard process keeps it alive while a handler holds the GIL.
    guard: bool = True


@dataclass(frozen=True)
class Among:
    """What a worker of one shard shares with the workers of other shards in its process."""

    budget: Budget
    # The part of a rate for this shard.
    share: float
    # Whether the standing row of a cron belongs here.
    where: Callable[[Kind], Belongs]
    # Whether a kind that lives in one shard, such as a sweep, lives here.
    is_home: Callable[[Kind], bool]


@dataclass(frozen=True)
class OwnRow:
    """The row of a worker, which holds its permits; a late heartbeat stops all runs anyway."""

    worker: Worker
    good_until = float("inf")

    @property
    def id(self) -> int:
        return self.worker.in_flight.owner or 0


LOOK_SECONDS = 0.02
# A worker that ends when nothing is due is guarded after this time: it mostly ends before.
GUARD_SECONDS = 1.0
# An event loop that takes longer to answer is blocked.
ANSWER_SECONDS = 1.0


class Worker:
    """Runs tasks of the given kinds until it is stopped, or until nothing is due."""

    def __init__(
        self,
        shard: Shard,
        registry: Registry,
        kinds: Mapping[str, Kind],
        settings: WorkerSettings,
        *,
        only: Only | None = None,
        among: Among | None = None,
        homes: Mapping[str, Place] = NOWHERE,
    ) -> None:
        # A team calls the hooks itself; a worker for one row or one retry has none.
        is_helper = among is not None or only is not None or settings.only_asked
        self._hooks = None if is_helper else registry.hooks
        self._shard = shard
        self._registry = registry
        # All its parts count, or none: metrics may be asked for later.
        self._meter = registry.meter
        self._kinds = kinds
        self._settings = settings
        self._only = only
        self._among = among
        self._stop_asked = 0
        self._death: WindlassError | None = None
        self._maintenance: Maintenance | None = None
        self.left_cleanly = False
        self._wake: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        site = Site.at(shard, registry)
        site = site if among is None else site._replace(is_home=among.is_home)
        self.in_flight = self._make_in_flight()
        self.pacer = Pacer(self.in_flight, plan_again=lambda: self.gate.plan_again())
        self.coroutines = Coroutines(self.in_flight)
        self.threads = Threads(self.in_flight)
        self._homes = homes
        self.permits: Permits | None = None
        self.adapter: Adapter | None = None
        self.gate = self._make_gate()
        self.ring = Ring(
            site,
            self.in_flight,
            kinds=kinds,
            lease=settings.lease,
            changed=lambda: self.fetcher.wake(),
        )
        self.hand_off = HandOff(
            shard.database.dialect,
            kinds if only is None else {},
            self.gate,
            ring=self.ring,
            fetch=lambda look: self.fetcher.wake_for(look=look),
        )
        self._site = site = site._replace(hand_off=self.hand_off)
        for load in self.in_flight.loads.values():
            load.site = site
        self.finish = Finish(site, self.gate)
        self.heartbeat = self._make_heartbeat()
        self.fetcher = Fetcher(site, self._claims(), self.in_flight)
        self.switchboard = self._make_switchboard()
        self.face_loops: list[FaceLoop] = [] if only is not None else self._make_face_loops()

    async def run(self) -> None:
        """Join, work, and leave. Leaves and raises if one of its loops ends."""
        hooks, meter = self._hooks, self._meter
        if hooks is not None and hooks.starts:
            await hooks.start()
        if meter is not None:
            meter.began(self)
        try:
            await self._run()
        finally:
            if meter is not None:
                meter.ended(self)
            # However it ended: nothing beats for it any more.
            self.heartbeat.end()
            if hooks is not None and hooks.stops:
                await hooks.stop()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        # A hook may have set the providers of OpenTelemetry.
        self.in_flight.observe(self._registry.hooks)
        for load in self.in_flight.loads.values():
            load.loop = self._loop
        self._wake = asyncio.Event()
        await asyncio.to_thread(self._begin)
        loops = self._loops()
        stop_listening = self._shard.bell.listen(self._look_now)
        self.coroutines.start()
        self.pacer.use(asyncio.get_running_loop())
        for loop in loops:
            loop.start(on_death=self._on_death)
        try:
            await self._until_stopped()
        finally:
            stop_listening()
            await self._end(loops)

    def stop(self) -> None:
        """Wait for running tasks up to the grace, then leave; a second call leaves at once."""
        self._stop_asked += 1
        self._wake_up()

    def leave(self, why: str) -> None:
        """Hand back what is still in flight, and leave without waiting."""
        self.heartbeat.leave(why)

    @property
    def id(self) -> int:
        """Its id in the ring, which changes when it joins again."""
        return self.heartbeat.id

    @property
    def is_stopping(self) -> bool:
        return self._stop_asked > 0

    @property
    def stops_at_once(self) -> bool:
        return self._stop_asked > 1

    @property
    def fatal(self) -> str | None:
        """Why it cannot go on; None if it can. It is about to leave."""
        return None if self._death is None else "one of its loops has ended"

    def trouble(self) -> str | None:
        """Why it takes no work now, without anything secret; None if it does. It may take 1 s."""
        if self.fatal is not None:
            return self.fatal
        if self.is_stopping:
            return "it is stopping"
        if self.in_flight.owner is None or self._loop is None:
            return "it has not joined"
        if self.in_flight.is_halted:
            return "it lost its lease"
        if not self.heartbeat.is_fresh:
            return "its heartbeat is late; does the database answer?"
        answered = threading.Event()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(answered.set)
        return None if answered.wait(ANSWER_SECONDS) else "a handler blocks its event loop"

    def pulse(self) -> Pulse:
        """Its counts now."""
        in_flight = self.in_flight
        return Pulse(
            running=len(in_flight.running) - in_flight.lists.listed,
            queued=len(in_flight.queues),
            done=self.finish.done + sum(loop.done for loop in self.face_loops),
            failed=self.finish.failed + sum(loop.failed for loop in self.face_loops),
            abandoned=in_flight.abandoned,
        )

    def state(self) -> WorkerState:
        """What it has now, for metrics."""
        in_flight = self.in_flight
        with in_flight.lock:
            loads = in_flight.loads.items()
            # Under the lock: what has started must never seem to be less than before.
            started = {name: load.ended + load.running for name, load in loads}
            running = {name: load.running for name, load in loads}
            ready = {name: load.queued for name, load in loads}
            carriers = {name: load.carrier for name, load in loads if load.carrier is not None}
            held = len(in_flight.running) + len(in_flight.queues) + len(in_flight.ended)
        # A worker for one row has a heartbeat for a moment only, and owns nothing.
        is_member = self._only is None and in_flight.owner is not None
        return WorkerState(
            shard=str(self._shard.index),
            started=started,
            running=running,
            ready=ready,
            in_flight=held,
            concurrency=in_flight.concurrency,
            abandoned_threads=in_flight.abandoned,
            heartbeat_age=self.heartbeat.age if is_member else None,
            buckets=sum(map(len, self.ring.share.runs)),
            is_guarded=self.heartbeat.is_guarded,
            waiting_elsewhere={name: carrier.waiting for name, carrier in carriers.items()},
        )

    def _make_in_flight(self) -> InFlight:
        return InFlight(
            self._kinds,
            self._settings.concurrency,
            budget=None if self._among is None else self._among.budget,
            hooks=self._registry.hooks,
            on_queued=self._on_queued,
            on_ended=lambda: self.finish.wake(),
            on_hungry=lambda: self.fetcher.wake_hungry(),
            on_planned=lambda: self.pacer.wake(),
            is_patient=not self._settings.until_idle,
        )

    def _make_gate(self) -> Gate:
        shard, homes, among = self._shard, self._homes, self._among
        pools: dict[str, Pool] = {}
        trips: dict[str, Trip] = {}
        if self.in_flight.has_limits:
            pools, trips, self.permits = make_limits(
                self.in_flight.loads.values(),
                shard.database,
                OwnRow(self),
                homes=homes,
                dead_after=self._settings.dead_after,
                gained=self._gained,
                freed=self._freed,
            )
        if any(each.adapt for kind in self._kinds.values() for each in kind.downstreams):
            self.adapter = Adapter(self.in_flight, shard.database, homes=homes)
        downstreams = {each for kind in self._kinds.values() for each in kind.downstreams}
        rates = Rates(
            shard.database,
            share=1.0 if among is None else among.share,
            homes=homes,
            whole={each.name for each in downstreams},
            most=None if self._only is None else 1,
        )
        breakers = Breakers(
            shard.database, shard.clock, shard.numbers, worker=lambda: self.id, homes=homes
        )
        return Gate(self.in_flight, rates, breakers, pools, trips, plans=self._only is None)

    def _make_switchboard(self) -> Switchboard:
        board = Switchboard(
            self._site,
            self.gate,
            opened=self.fetcher.look_now,
            homes=self._homes,
            is_visit=self._only is not None,
            rescheduled=self._discover_crons,
        )
        self.gate.breakers.on_opened = board.wake
        return board

    def _gained(self) -> None:
        """There are more permits: start what waits for them."""
        self.in_flight.made_room()
        self._freed()

    def _freed(self) -> None:
        """A permit is free that was lacking: look for a row that can use it."""
        self.fetcher.wake()
        for loop in self.face_loops:
            loop.wake()

    def _make_heartbeat(self) -> Heartbeat:
        settings, takes_all = self._settings, self._only is None
        serves = list(self._kinds) if takes_all else []
        members = None
        if takes_all and settings.members is not None:
            members = connect(settings.members, dead_after=settings.dead_after)
        return Heartbeat(
            self._site,
            self.in_flight,
            self._kinds,
            declared=Kinds(serves=serves, declares=list(self._registry.kinds)),
            lease=settings.lease,
            dead_after=settings.dead_after,
            flush=self.finish.flush_all,
            see=self.ring.see if takes_all else lambda _me, _workers: None,
            idle=self._idle,
            on_step=self._on_step,
            members=members,
            guard_after=self._guard_after(),
        )

    def _guard_after(self) -> float | None:
        if not self._settings.guard:
            return None
        return GUARD_SECONDS if self._settings.until_idle else 0.0

    def _on_step(self) -> None:
        """The database's clock has stepped: record it now."""
        if self._maintenance is not None:
            self._maintenance.wake()

    def _idle(self) -> int:
        """How many more rows it could start soon; 0 if it has enough to do."""
        return self.in_flight.capacity.room().total if self.fetcher.found_nothing else 0

    def _make_face_loops(self) -> list[FaceLoop]:
        workplace = Workplace(
            site=self._site,
            kinds=self._kinds,
            in_flight=self.in_flight,
            ring=self.ring,
            gate=self.gate,
            worker=lambda: self.id,
            is_quiet=lambda: self.fetcher.wants_quiet,
            look_now=self._look_now,
            until_idle=self._settings.until_idle,
            only_asked=self._settings.only_asked,
        )
        return [
            loop
            for face in self._site.faces.serving(self._kinds).all
            if face.loops is not None
            for loop in face.loops(workplace)
        ]

    @property
    def is_idle(self) -> bool:
        """Whether nothing is due now."""
        return self.fetcher.idle.is_set() and all(loop.is_idle for loop in self.face_loops)

    def look_again(self) -> None:
        """Be idle only after another look."""
        self.fetcher.idle.clear()
        self.fetcher.look_now()
        for loop in self.face_loops:
            loop.look_again()

    @property
    def problem(self) -> Exception | None:
        """The error that has stopped its work for a while."""
        found = (loop.problem or loop.trouble for loop in self.face_loops)
        return self.fetcher.problem or next((each for each in found if each is not None), None)

    def _look_now(self) -> None:
        self.fetcher.look_now()
        for loop in self.face_loops:
            loop.look_soon()

    def _claims(self) -> Claims:
        settings = self._settings
        if self._only is not None:
            (kind,) = self._kinds.values()
            return OneClaim(
                self._site,
                self._only,
                self.gate,
                kind=kind,
                worker=lambda: self.id,
                lease=settings.lease,
            )
        return OwnersRead(
            self._site,
            self._kinds,
            self.in_flight,
            ring=self.ring,
            gate=self.gate,
            lease=settings.lease,
            dead_after=settings.dead_after,
            fail_as_poison=self.finish.fail_as_poison,
            on_news=self.heartbeat.wake,
            once=settings.until_idle,
        )

    def _begin(self) -> None:
        database = self._shard.database
        if self.permits is not None:
            for account in self.permits.accounts:
                account.database.schema.need(PERMITS, "downstream= and total_concurrency=")
        if self._only is None:
            shard = self._shard
            self._discover_crons()
            for face in shard.faces.in_use(shard.database, self._registry.kinds.values()).all:
                if face.discover is not None:
                    face.discover(self._site)
        self.switchboard.obey()
        self.heartbeat.join_ring()
        if self._only is None and not self._settings.until_idle:
            if not database.schema.has(VERSION):
                version = database.schema.version
                telemetry.emit("schema.behind", database=database.name, version=version)
            for hazard in database.dialect.hazards(database.url):
                telemetry.emit("database.endangered", database=database.name, hazard=hazard)

    def _discover_crons(self) -> None:
        shard = self._shard
        where = cron.everywhere if self._among is None else self._among.where
        cron.discover(shard.database, self._registry.kinds, shard.clock, shard.numbers, where=where)

    def _loops(self) -> list[Loop]:
        shard = self._shard
        loops: list[Loop] = [
            self.finish,
            self.heartbeat,
            Watch(self.in_flight, stop_if_lease_ended=self.heartbeat.stop_if_lease_ended),
            Mark(self._site, self.in_flight, lease=self._settings.lease),
            self.fetcher,
            self.pacer,
        ]
        if any(load.gathers for load in self.in_flight.loads.values()):
            loops.append(Gatherer(self.in_flight))
        loops += [each for each in (self.permits, self.adapter) if each is not None]
        if self._only is None:
            loops += [self.switchboard, *self.face_loops]
        if not self._settings.until_idle:
            self._maintenance = Maintenance(
                shard.database,
                shard.clock,
                shard.faces,
                numbers=shard.numbers,
                went_back=self._discover_crons,
            )
            loops.append(self._maintenance)
            listener = listener_of(shard.database, self._look_now, me=lambda: self.id)
            if listener is not None:
                loops.append(listener)
        return loops

    def _on_death(self, loop: Loop, problem: BaseException) -> None:
        """Stop: the other loops would keep rows that this one no longer works on."""
        self._death = WindlassError(
            f"loop {loop.name!r} of worker {self.id} ended by {problem!r:.200}; "
            "the worker has left, and other workers continue its work"
        )
        self._wake_up()
        telemetry.emit("worker.crashed", worker=self.id, error=str(self._death))

    def _wake_up(self) -> None:
        if self._loop is not None and self._wake is not None:
            # It may have ended already.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake.set)

    def _on_queued(self, is_async: bool) -> None:
        (self.coroutines if is_async else self.threads).wake()

    async def _until_stopped(self) -> None:
        assert self._wake is not None
        # Workers of other shards may still enqueue for this one.
        if self._settings.until_idle and self._among is None:
            await self._until_idle()
            return
        while not (self.is_stopping or self._death):
            await self._wake.wait()
            self._wake.clear()
        if self._death is not None:
            raise self._death

    async def _until_idle(self) -> None:
        """Until nothing is due; with loops of faces, also after a second look at everything.

        A task may have started a sweep, and an item of the sweep may have enqueued a task.
        """
        begun = -1
        while not self.is_stopping:
            if self._death is not None:
                raise self._death
            if self.problem is not None:
                # A worker keeps trying; a script must see the error.
                raise self.problem
            if not self.is_idle:
                await asyncio.sleep(0.001)
            elif not self.face_loops or begun == self.in_flight.begun:
                return
            else:
                begun = self.in_flight.begun
                self.look_again()

    async def _end(self, loops: list[Loop]) -> None:
        """Stop claiming, wait for running tasks, write outcomes, hand back the rest, and leave."""
        if not self._settings.until_idle:
            telemetry.emit("worker.stopping", worker=self.id, running=len(self.in_flight.running))
        first: list[Loop] = [self.fetcher, *(each for each in self.face_loops if each.begins_runs)]
        for loop in first:
            loop.stop()
        deadline = time.monotonic() + self._settings.grace / SECOND
        for loop in first:
            # A tick that still runs could add rows to those that are dropped here.
            while not await asyncio.to_thread(loop.join, 0.2):
                # Do not wait for a claim that hangs; its rows are handed back with the rest.
                if self.stops_at_once or time.monotonic() > deadline:
                    break
        self.in_flight.drop_queued()
        await self._let_finish(deadline)
        self.threads.stop()
        self.in_flight.drop(list(self.in_flight.running))
        await self.coroutines.stop()
        await asyncio.to_thread(self._leave, loops)

    async def _let_finish(self, deadline: float) -> None:
        while self.in_flight.running and not self.stops_at_once and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_SECONDS)

    def _leave(self, loops: list[Loop]) -> None:
        for loop in loops:
            loop.stop()
        self.finish.join(timeout=10.0)
        self.heartbeat.join(timeout=10.0)
        for each in self.face_loops:
            if each.begins_runs:
                each.join(timeout=10.0)
            each.close()
        try:
            self.finish.flush_all()
            for each in self.face_loops:
                each.release()
            if self.permits is not None:
                self.permits.release()
            self.heartbeat.leave("stopped")
            self.left_cleanly = True
        except Exception as problem:
            telemetry.emit("worker.crashed", worker=self.id, error=str(problem)[:300])

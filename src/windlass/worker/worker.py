"""A worker: all loops of the kernel, from joining to leaving."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.cron import discover as cron
from windlass.core.face import FaceLoop, Faces, Resolved, Site, Workplace
from windlass.core.fetch.claim import Claims
from windlass.core.fetch.fetcher import Fetcher
from windlass.core.fetch.handoff import HandOff
from windlass.core.fetch.one import OneClaim, Only
from windlass.core.fetch.owner import OwnersRead
from windlass.core.finish.finish import Finish
from windlass.core.limit.breaker import Breakers
from windlass.core.limit.gate import Gate
from windlass.core.limit.rate import Rates
from windlass.core.limit.switch import Switchboard
from windlass.core.loop import Loop
from windlass.core.maintenance import Maintenance
from windlass.core.ring.heartbeat import Heartbeat
from windlass.core.ring.mark import Mark
from windlass.core.ring.member import Members, connect
from windlass.core.ring.ring import Ring
from windlass.core.ring.store.worker import Kinds, WorkerView
from windlass.core.run.in_flight import InFlight
from windlass.core.run.runner import Coroutines, Threads, Watch
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind, Registry
from windlass.core.wake.bell import listener_of
from windlass.database.dialect.base import Executor
from windlass.value.pulse import Pulse
from windlass.value.task import Claimed
from windlass.worker.settings import Among, WorkerSettings

LOOK_SECONDS = 0.02


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
    ) -> None:
        self._shard = shard
        self._registry = registry
        self._kinds = kinds
        self._settings = settings
        self._only = only
        self._among = among
        self._stop_asked = 0
        self.left_cleanly = False
        self._wake: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.in_flight = self._make_in_flight()
        self.coroutines = Coroutines(self.in_flight)
        self.threads = Threads(self.in_flight)
        self.breakers = Breakers(
            shard.database, shard.clock, shard.numbers, worker=lambda: self.heartbeat.id
        )
        rates = Rates(shard.database, share=1.0 if among is None else among.share)
        self._gate = Gate(self.in_flight, rates, self.breakers)
        self.ring = Ring(
            shard.database,
            self.in_flight,
            shard.clock,
            shard.numbers,
            kinds=kinds,
            lease=settings.lease,
            changed=lambda: self.fetcher.wake(),
        )
        self.hand_off = self._make_hand_off()
        self._site = self._make_site()
        for load in self.in_flight.loads.values():
            load.site = self._site
        self.finish = Finish(self._site, self.in_flight, breakers=self.breakers)
        self.heartbeat = self._make_heartbeat()
        self.fetcher = Fetcher(
            self._claims(), self.in_flight, hand_off=self.hand_off, resolve=self._resolve
        )
        self.switchboard = Switchboard(
            shard.database,
            self.in_flight,
            shard.clock,
            rates,
            self.breakers,
            opened=self.fetcher.look_now,
        )
        self.face_loops: list[FaceLoop] = [] if only is not None else self._make_face_loops()

    async def run(self) -> None:
        """Join, work, and leave."""
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        await asyncio.to_thread(self._begin)
        loops = self._loops()
        stop_listening = self._shard.bell.listen(self._look_now)
        self.coroutines.start()
        for loop in loops:
            loop.start()
        try:
            await self._until_stopped()
        finally:
            stop_listening()
            await self._end(loops)

    def stop(self) -> None:
        """Wait for running tasks up to the grace, then leave; a second call leaves at once."""
        self._stop_asked += 1
        if self._loop is not None and self._wake is not None:
            self._loop.call_soon_threadsafe(self._wake.set)

    def leave(self, why: str) -> None:
        """Hand back what is still in flight, and leave without waiting."""
        self.heartbeat.leave(why)

    @property
    def is_stopping(self) -> bool:
        return self._stop_asked > 0

    @property
    def stops_at_once(self) -> bool:
        return self._stop_asked > 1

    def pulse(self) -> Pulse:
        """Its counts now."""
        in_flight = self.in_flight
        return Pulse(
            running=len(in_flight.running),
            queued=in_flight.asyncs.queued + in_flight.syncs.queued,
            done=self.finish.done + sum(loop.done for loop in self.face_loops),
            failed=self.finish.failed + sum(loop.failed for loop in self.face_loops),
            abandoned=in_flight.abandoned,
        )

    def _make_in_flight(self) -> InFlight:
        return InFlight(
            self._kinds,
            self._settings.concurrency,
            budget=None if self._among is None else self._among.budget,
            on_queued=self._on_queued,
            on_ended=lambda: self.finish.wake(),
            on_hungry=lambda: self.fetcher.wake_hungry(),
        )

    def _make_hand_off(self) -> HandOff:
        return HandOff(
            self.in_flight,
            is_near=self._is_near,
            is_ours=self._is_ours,
            wake_others=self._wake_others,
            fetch=lambda look: self.fetcher.wake_for(look=look),
        )

    def _make_site(self) -> Site:
        shard = self._shard
        site = Site(
            shard.database,
            shard.clock,
            shard.numbers,
            self._registry,
            shard.faces,
            self._settings.max_payload,
            hand_off=self.hand_off,
        )
        return site if self._among is None else site._replace(is_home=self._among.is_home)

    def _make_heartbeat(self) -> Heartbeat:
        shard, settings = self._shard, self._settings
        serves = list(self._kinds) if self._only is None else []
        return Heartbeat(
            shard.database,
            self.in_flight,
            shard.clock,
            shard.numbers,
            kinds=Kinds(serves=serves, declares=list(self._registry.kinds)),
            due=self._due,
            lease=settings.lease,
            dead_after=settings.dead_after,
            flush=self.finish.flush_all,
            see=self._see,
            idle=self._idle,
            faces=shard.faces,
            serving=self._serving,
            members=self._members(),
        )

    def _members(self) -> Members | None:
        url = self._settings.members
        if url is None or self._only is not None:
            return None
        return connect(url, dead_after=self._settings.dead_after)

    def _see(self, me: int, workers: Sequence[WorkerView]) -> None:
        if self._only is None:
            self.ring.see(me, workers)

    def _idle(self) -> int:
        """How many more rows it could start soon; 0 if it has enough to do."""
        return self.in_flight.room().total if self.fetcher.found_nothing else 0

    def _resolve(self, tasks: Sequence[Claimed]) -> Resolved:
        """Prepare rows, such as nodes of flows, by the face that can."""
        for face in self._shard.faces.all:
            if face.resolve is not None:
                return face.resolve(self._shard.database, tasks)
        return Resolved(tasks, {})

    def _wake_others(self, executor: Executor) -> None:
        """Rows of other workers became due: notify them once for each finish."""
        dialect = self._shard.database.dialect
        if dialect.wakes and self.ring.has_others:
            dialect.notify(executor, str(self.heartbeat.id))

    def _is_ours(self, row: Claimed) -> bool:
        """Whether a row that became due may run here without a read."""
        if self._only is not None or row.kind not in self._kinds:
            return False
        is_new = not row.lost and (row.due_at or 0) > self.ring.share.careful_to
        return is_new and self._gate.is_free(row.kind) and self._is_near(row.bucket)

    def _is_near(self, bucket: int) -> bool:
        return any(bucket in run for run in self.ring.share.runs)

    def _make_face_loops(self) -> list[FaceLoop]:
        workplace = Workplace(
            site=self._site,
            kinds=self._kinds,
            in_flight=self.in_flight,
            ring=self.ring,
            gate=self._gate,
            breakers=self.breakers,
            worker=lambda: self.heartbeat.id,
            is_quiet=lambda: self.fetcher.wants_quiet,
            look_now=self._look_now,
            until_idle=self._settings.until_idle,
            only_asked=self._settings.only_asked,
        )
        return [
            loop
            for face in self._serving.all
            if face.loops is not None
            for loop in face.loops(workplace)
        ]

    @property
    def _serving(self) -> Faces:
        return self._shard.faces.only({kind.face for kind in self._kinds.values()})

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

    def _due(self, now: int) -> dict[str, int]:
        """The due time of rows that are handed back, for kinds with a tick: the last tick."""
        return {
            name: kind.due_until(now)
            for name, kind in self._kinds.items()
            if kind.period is not None and kind.period.tick is not None
        }

    def _claims(self) -> Claims:
        shard, settings = self._shard, self._settings
        if self._only is not None:
            return OneClaim(
                shard.database,
                shard.clock,
                shard.numbers,
                self._only,
                worker=lambda: self.heartbeat.id,
                lease=settings.lease,
                max_lost=max(kind.max_lost for kind in self._kinds.values()),
            )
        return OwnersRead(
            shard.database,
            self._kinds,
            shard.clock,
            shard.numbers,
            self.in_flight,
            self.ring,
            lease=settings.lease,
            dead_after=settings.dead_after,
            fail_as_poison=self.finish.fail_as_poison,
            gate=self._gate,
            once=settings.until_idle,
            on_news=self.heartbeat.wake,
        )

    def _begin(self) -> None:
        if self._only is None:
            shard = self._shard
            where = cron.everywhere if self._among is None else self._among.where
            cron.discover(
                shard.database, self._registry.kinds, shard.clock, shard.numbers, where=where
            )
            for face in shard.faces.in_use(shard.database, self._registry.kinds.values()).all:
                if face.discover is not None:
                    face.discover(self._site)
            self.switchboard.obey()
        self.heartbeat.join_ring()

    def _loops(self) -> list[Loop]:
        shard = self._shard
        loops: list[Loop] = [
            self.finish,
            self.heartbeat,
            Watch(self.in_flight, stop_if_lease_ended=self.heartbeat.stop_if_lease_ended),
            Mark(
                shard.database,
                self.in_flight,
                shard.clock,
                shard.numbers,
                lease=self._settings.lease,
            ),
            self.fetcher,
        ]
        if self._only is None:
            loops += [self.switchboard, *self.face_loops]
        if not self._settings.until_idle:
            loops.append(Maintenance(shard.database, shard.clock, shard.faces))
            listener = listener_of(shard.database, self._look_now, me=lambda: self.heartbeat.id)
            if listener is not None:
                loops.append(listener)
        return loops

    def _on_queued(self, is_async: bool) -> None:
        (self.coroutines if is_async else self.threads).wake()

    async def _until_stopped(self) -> None:
        assert self._wake is not None
        # Workers of other shards may still enqueue for this one.
        if self._settings.until_idle and self._among is None:
            await self._until_idle()
            return
        while not self.is_stopping:
            await self._wake.wait()
            self._wake.clear()

    async def _until_idle(self) -> None:
        """Until nothing is due; with loops of faces, also after a second look at everything.

        A task may have started a sweep, and an item of the sweep may have enqueued a task.
        """
        begun = -1
        while not self.is_stopping:
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
            telemetry.emit(
                "worker.stopping", worker=self.heartbeat.id, running=len(self.in_flight.running)
            )
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
            self.heartbeat.leave("stopped")
            self.left_cleanly = True
        except Exception as problem:
            telemetry.emit("worker.crashed", worker=self.heartbeat.id, error=str(problem)[:300])

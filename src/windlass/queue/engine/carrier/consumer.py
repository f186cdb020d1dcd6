"""A consumer: runs carried tasks with the handlers of an app, and needs no database.

Handlers run as in a worker: async ones on the event loop, sync ones on threads, inside the app's
middlewares, with their time-outs. A message is acknowledged after its reply is confirmed, so the
broker delivers it again if the consumer dies before. If it is delivered again to this consumer,
because only the connection was lost, it does not run a second time: it runs already, or its reply
is sent again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.loop import Loop
from windlass.core.meter import Meter
from windlass.core.run.in_flight import InFlight
from windlass.core.run.many.gather import Gatherer
from windlass.core.run.ready import KindLoad, Run
from windlass.core.run.runner import Coroutines, Threads, Watch
from windlass.core.task.hook import Hooks
from windlass.core.task.kind import Kind
from windlass.errors import UnknownKind
from windlass.queue.engine.carrier.errand import CarriedRun, Errand
from windlass.queue.engine.carrier.intake import Intake
from windlass.queue.engine.carrier.replier import Replier
from windlass.queue.model.carrier import (
    DEFAULT_TIMEOUT,
    LONGEST_BUFFERED,
    PROTOCOL,
    NotUnderstood,
    Parcel,
    RunReply,
    read_parcel,
    reply_of,
)
from windlass.queue.model.message import Delivered
from windlass.queue.model.queue import Queue
from windlass.value.metric import Pulse
from windlass.value.outcome import Failed, Retried

MOST_PREFETCHED = 16
# RabbitMQ counts up to 65,535.
MOST_UNACKNOWLEDGED = 60_000
LOOK_SECONDS = 0.02


class TaskConsumer:
    """Consumes one queue until it is stopped."""

    def __init__(
        self,
        queue: Queue,
        kinds: Mapping[str, Kind],
        hooks: Hooks,
        *,
        meter: Meter | None = None,
        concurrency: int,
        grace: int,
    ) -> None:
        self.queue = queue
        self.in_flight = InFlight(kinds, concurrency, hooks=hooks, on_queued=self._on_queued)
        self.done = self.failed = 0
        self.left_cleanly = False
        self.fatal: str | None = None
        prefetch = min(
            concurrency * _listed(kinds.values()) + _ahead(kinds.values(), concurrency),
            MOST_UNACKNOWLEDGED,
        )
        self.intake = Intake(queue, prefetch=prefetch, accept=self.accept)
        self.replier = Replier(queue, answered=self.intake.answered)
        self._hooks = hooks
        self._meter = meter
        self._grace = grace
        self._coroutines = Coroutines(self.in_flight)
        self._threads = Threads(self.in_flight)
        self._stop_asked = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None

    async def run(self) -> None:
        """Consume until `stop`. Raises at the start if the broker refuses."""
        await self._hooks.start()
        if self._meter is not None:
            self._meter.consumers.append(self)
        try:
            await self._run()
        finally:
            await self._hooks.stop()

    async def _run(self) -> None:
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        self.in_flight.observe(self._hooks)
        for load in self.in_flight.loads.values():
            load.loop = self._loop
        await asyncio.to_thread(self.intake.open)
        names = ", ".join(sorted(self.in_flight.loads))
        telemetry.emit("consumer.started", queue=self.queue.name, kinds=names)
        watch = Watch(self.in_flight, stop_if_lease_ended=lambda: None)
        gatherer = Gatherer(self.in_flight)
        self._coroutines.start()
        for loop in (self.intake, self.replier, watch, gatherer):
            loop.start(on_death=self._on_death)
        while not (self._stop_asked or self.fatal):
            await self._wake.wait()
            self._wake.clear()
        await self._end((watch, gatherer))

    async def _end(self, others: Sequence[Loop]) -> None:
        """Take nothing more, wait for what runs, answer, and give back the rest."""
        running = len(self.in_flight.running)
        telemetry.emit("consumer.stopping", queue=self.queue.name, running=running)
        self.intake.close_to_new()
        deadline = time.monotonic() + self._grace / SECOND
        self._give_back()
        while (self.in_flight.running or len(self.replier)) and not self.stops_at_once:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(LOOK_SECONDS)
            # A message may have arrived meanwhile.
            self._give_back()
        self._threads.stop()
        self.in_flight.drop_all()
        await self._coroutines.stop()
        for loop in (self.replier, self.intake, *others):
            loop.stop()
        for loop in (self.replier, self.intake):
            await asyncio.to_thread(loop.join, 5.0)
        await asyncio.to_thread(self._close)

    def _give_back(self) -> None:
        """Give back what has not begun: another consumer may run it."""
        with self.in_flight.lock:
            queued = self.in_flight.queues.drop(lambda _run: True)
        for run in queued:
            if isinstance(run, CarriedRun):
                self.intake.give_back(self.intake.errands[run.parcel.id])

    def _close(self) -> None:
        self.intake.close()
        self.replier.close()
        self.left_cleanly = self.fatal is None
        telemetry.emit("consumer.stopped", queue=self.queue.name, done=self.done)

    def stop(self) -> None:
        """Wait for running tasks up to the grace, then end; a second call ends at once."""
        self._stop_asked += 1
        self._wake_up()

    def leave(self, why: str) -> None:
        """Nothing is written down: what it had is delivered to others when the process ends."""

    @property
    def stops_at_once(self) -> bool:
        return self._stop_asked > 1

    def trouble(self) -> str | None:
        """Why it takes no messages now; None if it does."""
        if self.fatal is not None:
            return self.fatal
        return "it is stopping" if self._stop_asked else self.intake.away or self.replier.away

    def pulse(self) -> Pulse:
        """Its counts now."""
        return Pulse(
            running=self.in_flight.occupied,
            queued=len(self.in_flight.queues),
            done=self.done,
            failed=self.failed,
            abandoned=self.in_flight.abandoned,
        )

    def accept(self, deliveries: Sequence[Delivered]) -> None:
        """Start what was delivered; what cannot start is answered at once."""
        runs: dict[KindLoad, list[Run]] = {}
        for delivery in deliveries:
            try:
                run = self._accepted(delivery)
            except Exception as problem:
                # Whatever is odd about it, the others go on.
                said = f"{type(problem).__name__}: {problem}"[:300]
                telemetry.emit("consumer.refused", queue=self.queue.name, error=said)
                self.intake.drop(delivery)
                continue
            if run is not None:
                runs.setdefault(run.load, []).append(run)
        for started in runs.values():
            self.in_flight.add_items(started, version=self.in_flight.plan_version)

    def _accepted(self, delivery: Delivered) -> CarriedRun | None:
        try:
            parcel = read_parcel(delivery.body)
        except NotUnderstood as problem:
            self._refuse(delivery, problem)
            return None
        known = self.intake.errands.get(parcel.id)
        if known is not None:
            # The connection was lost, and this run was not.
            known.delivery = delivery
            return None
        errand = self._begin(delivery, parcel.id, parcel.reply_to)
        reply = self.replier.remembered(parcel.id) or self._without_run(parcel)
        if reply is not None:
            self.replier.put(errand, reply)
            return None
        errand.run = CarriedRun(parcel, self.in_flight.loads[parcel.kind], self)
        if delivery.is_again:
            # One of a list may have killed its consumer: each of them runs without the others.
            errand.run.company = 1
        return errand.run

    def _begin(self, delivery: Delivered, number: str, reply_to: str) -> Errand:
        errand = self.intake.errands[number] = Errand(delivery, number, reply_to)
        return errand

    def _without_run(self, parcel: Parcel) -> RunReply | None:
        """The reply for what cannot or need not run here."""
        if parcel.kind not in self.in_flight.loads:
            problem = UnknownKind(parcel.kind, list(self.in_flight.loads))
            telemetry.emit("consumer.refused", queue=self.queue.name, error=str(problem))
            text = f"the consumer of queue {self.queue.name!r}: {problem}"
            return RunReply(PROTOCOL, parcel.id, "refused", error=text)
        if parcel.comes_too_late(time.time()):
            return RunReply(PROTOCOL, parcel.id, "expired")
        return None

    def _refuse(self, delivery: Delivered, problem: NotUnderstood) -> None:
        """Say that a message is not understood, if it names where; else drop it."""
        telemetry.emit("consumer.refused", queue=self.queue.name, error=str(problem))
        number = problem.id or delivery.correlation_id or ""
        reply_to = problem.reply_to or delivery.reply_to
        if not number or not reply_to:
            self.intake.reject(delivery)
            return
        reply = RunReply(PROTOCOL, number, "refused", error=str(problem))
        self.replier.put(self._begin(delivery, number, reply_to), reply)

    def landed(self, run: Run) -> None:
        """A run has ended; called under the lock of `InFlight`."""
        assert isinstance(run, CarriedRun)
        assert run.outcome is not None
        has_failed = isinstance(run.outcome, Failed | Retried)
        self.failed += has_failed
        self.done += not has_failed
        if self._meter is not None:
            self._meter.consumed(run.kind.name, has_failed=has_failed)
        self.replier.put(self.intake.errands[run.parcel.id], reply_of(run.parcel.id, run.outcome))

    def taken_back(self, run: Run) -> None:
        """No switch closes a kind here."""

    def _on_queued(self, is_async: bool) -> None:
        (self._coroutines if is_async else self._threads).wake()

    def _on_death(self, loop: Loop, problem: BaseException) -> None:
        self.fatal = f"loop {loop.name!r} ended by {problem!r:.200}"
        self._wake_up()

    def _wake_up(self) -> None:
        if self._loop is not None and self._wake is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake.set)


def _listed(kinds: Iterable[Kind]) -> int:
    """How many messages one call of a handler may take."""
    return max((kind.many.most for kind in kinds if kind.many is not None), default=1)


def _ahead(kinds: Iterable[Kind], concurrency: int) -> int:
    """How many messages may wait here. None if others could take them long before."""
    longest = max((kind.timeout or DEFAULT_TIMEOUT for kind in kinds), default=DEFAULT_TIMEOUT)
    return min(concurrency, MOST_PREFETCHED) if longest <= LONGEST_BUFFERED else 0

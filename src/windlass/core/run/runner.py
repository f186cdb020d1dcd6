"""The runners: coroutines run async handlers, threads run sync handlers.

Runners are created as needed and pull the next run when they are free; no task creates its own. A
runner does not decide about the row: it gives the outcome to `InFlight`, which may refuse it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

from windlass import telemetry
from windlass.clock import SECOND
from windlass.core.loop import Loop
from windlass.core.run.in_flight import InFlight
from windlass.core.run.ready import Run, failure, late
from windlass.core.task.current import current
from windlass.value.outcome import SUCCESS, Outcome

if TYPE_CHECKING:
    from windlass.core.run.isolate.call import Isolator

SLICE_SECONDS = 0.005
IDLE_THREAD_SECONDS = 30.0
# A wake-up of a thread costs as much as a start. So the pacer waits for a few starts, but not for
# long: a start that is late by 95 ms has lost its moment.
FEWEST_SECONDS = 0.010
TOGETHER = 4
TOGETHER_SECONDS = 0.07
# On a busy machine it wakes late. Then it waits for fewer starts, or it would lose their moments.
LATENESS_KEPT = 0.9
LATENESS_COUNTS = 2
PLAN_AGAIN_SECONDS = 0.05
# How often the lease is looked at, at least.
WATCH_SECONDS = 0.25
NOTHING_PLANNED_SECONDS = 60.0


class Coroutines:
    """Runs async handlers on the event loop, each coroutine one at a time."""

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None
        self._runners: list[asyncio.Task[None]] = []
        self._resting: list[asyncio.Future[None]] = []
        self._is_waking = False
        self._is_stopping = False
        # Has the handlers of isolated kinds called in child processes, if there are such kinds.
        self._isolator: Isolator | None = None

    def start(self) -> None:
        """Start to run queued runs on the running event loop."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._isolate()
        self._wake_one()

    async def stop(self) -> None:
        """End the runners; cancels handlers that still run."""
        self._is_stopping = True
        for runner in self._runners:
            runner.cancel()
        if self._runners:
            await asyncio.wait(self._runners, timeout=1.0)
        if self._isolator is not None:
            await self._isolator.close()

    def _isolate(self) -> None:
        loads = [load for load in self._in_flight.loads.values() if load.kind.isolate is not None]
        if not loads:
            return
        # Imported here: most workers have no such kind.
        from windlass.core.run.isolate.call import Isolator

        self._isolator = Isolator(self._in_flight.concurrency)
        for load in loads:
            self._isolator.isolate(load)

    def wake(self) -> None:
        """Let resting runners look for work. Call it from any thread."""
        if self._loop is None or self._is_waking:
            return
        if threading.get_ident() == self._thread:
            self._wake_one()
            return
        self._is_waking = True
        try:
            self._loop.call_soon_threadsafe(self._wake_one)
        except RuntimeError:
            self._is_waking = False

    def _wake_one(self) -> None:
        """Wake one runner, which wakes the next. One runner is enough for short tasks."""
        self._is_waking = False
        if self._is_stopping or not self._in_flight.queues.asyncs.queued:
            return
        while self._resting:
            future = self._resting.pop()
            if not future.done():
                self._is_waking = True
                future.set_result(None)
                return
        if self._loop is not None and self._may_grow:
            self._is_waking = True
            name = f"windlass-runner-{len(self._runners)}"
            self._runners.append(self._loop.create_task(self._run(), name=name))

    @property
    def _may_grow(self) -> bool:
        return len(self._runners) < self._in_flight.concurrency

    async def _run(self) -> None:
        self._is_waking = False
        runner = Runner()
        in_flight = self._in_flight
        run: Run | None = None
        outcome: Outcome | None = None
        slice_began = time.monotonic()
        while not self._is_stopping:
            run = in_flight.advance(run, outcome, is_async=True)
            if run is None:
                await self._rest()
                slice_began = time.monotonic()
                continue
            if (
                in_flight.queues.asyncs.queued
                and not self._is_waking
                and (self._resting or self._may_grow)
            ):
                self._wake_one()
            run.runner = runner
            runner.current = run
            current.set(run)
            try:
                result = await run.call()
                outcome = SUCCESS if result is None else run.succeeded(result)
            except asyncio.CancelledError as error:
                outcome = runner.cancelled(run, error)
            except BaseException as error:
                outcome = failure(run, error)
            finally:
                runner.let_go(run)
            if run.began - slice_began > SLICE_SECONDS:
                await asyncio.sleep(0)
                slice_began = time.monotonic()

    async def _rest(self) -> None:
        assert self._loop is not None
        future = self._loop.create_future()
        self._resting.append(future)
        try:
            await future
        finally:
            self._is_waking = False


class Runner:
    """A coroutine that runs handlers one by one; `stop` cancels the current one."""

    __slots__ = ("_loop", "_stopped", "_task", "current")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._stopped: Run | None = None
        self.current: Run | None = None

    def stop(self, run: Run) -> None:
        """Cancel the handler of `run`, and never the next one. Call it from any thread."""
        self._loop.call_soon_threadsafe(self._cancel, run)

    def cancelled(self, run: Run, error: asyncio.CancelledError) -> Outcome | None:
        """The outcome of a cancelled handler; None if `stop` cancelled it."""
        if self._stopped is run:
            return None
        if self._task.cancelling():
            raise error
        return failure(run, error)

    def let_go(self, run: Run) -> None:
        """End `run`, even if its handler ignored the cancellation."""
        self.current = None
        if self._stopped is run:
            self._stopped = None
            self._task.uncancel()

    def _cancel(self, run: Run) -> None:
        if self.current is run:
            self._stopped = run
            self._task.cancel()


class Threads:
    """Runs sync handlers on threads, up to the concurrency."""

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        self._condition = threading.Condition()
        self._count = 0
        self._resting = 0
        self._is_stopping = False

    def stop(self) -> None:
        """Start no more runs. Does not wait for threads inside a handler."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify_all()

    def wake(self) -> None:
        """Let as many threads look for work as there are queued runs."""
        with self._condition:
            wanted = self._in_flight.queues.syncs.queued
            if self._resting:
                self._condition.notify(wanted)
            while self._count < self._in_flight.concurrency and wanted > self._resting:
                self._count += 1
                wanted -= 1
                threading.Thread(target=self._run, name="windlass-handler", daemon=True).start()

    def give_up(self, thread: HandlerThread, run: Run) -> None:
        """Abandon a thread, as it cannot be stopped; another one may take its place."""
        with self._condition:
            if thread.current is not run:
                return
            thread.current = None
            thread.is_given_up = True
            self._count -= 1
            self._in_flight.abandoned += 1
        telemetry.emit(
            "task.abandoned", task=run.number, kind=run.kind.name, threads=self._in_flight.abandoned
        )
        self.wake()

    def _run(self) -> None:
        in_flight = self._in_flight
        thread = HandlerThread(self)
        run: Run | None = None
        outcome: Outcome | None = None
        while not self._is_stopping:
            run = in_flight.advance(run, outcome, is_async=False)
            if run is None:
                if not self._rest():
                    return
                continue
            thread.current = run
            run.runner = thread
            outcome = self._call(run)
            with self._condition:
                thread.current = None
                if thread.is_given_up:
                    # Another thread has its place.
                    in_flight.abandoned -= 1
                    return
        if run is not None and outcome is not None:
            in_flight.end(run, outcome)

    def _rest(self) -> bool:
        with self._condition:
            if self._in_flight.queues.syncs.queued and not self._in_flight.capacity.is_full:
                # A kind may be at its limit: look again soon, without spinning.
                self._condition.wait(0.005)
                return True
            self._resting += 1
            woken = self._condition.wait(IDLE_THREAD_SECONDS)
            self._resting -= 1
            if woken or self._is_stopping:
                return True
            self._count -= 1
            return False

    @staticmethod
    def _call(run: Run) -> Outcome:
        current.set(run)
        try:
            return run.succeeded(run.call())
        except BaseException as error:
            return failure(run, error)
        finally:
            current.set(None)


class HandlerThread:
    """A thread that runs handlers one by one; `stop` abandons it."""

    __slots__ = ("_threads", "current", "is_given_up")

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self.current: Run | None = None
        self.is_given_up = False

    def stop(self, run: Run) -> None:
        self._threads.give_up(self, run)


class Watch(Loop):
    """Ends runs that time out, and all runs when the lease ends without a heartbeat."""

    name = "watch"

    def __init__(self, in_flight: InFlight, *, stop_if_lease_ended: Callable[[], None]) -> None:
        super().__init__()
        self._in_flight = in_flight
        self._stop_if_lease_ended = stop_if_lease_ended
        loads = in_flight.loads.values()
        # No run that starts later is overdue before that.
        shortest = min((load.timeout for load in loads if load.timeout is not None), default=inf)
        self._pause = max(FEWEST_SECONDS, min(WATCH_SECONDS, shortest))

    def tick(self) -> float:
        self._stop_if_lease_ended()
        now = time.monotonic()
        overdue, next_at = self._in_flight.overdue(now)
        for run in overdue:
            if self._in_flight.end(run, failure(run, late(run))) and run.runner is not None:
                run.runner.stop(run)
        return min(self._pause, max(FEWEST_SECONDS, next_at - now))


class Pacer(Loop):
    """Lets planned runs start at their moments, and has those planned again that lost them.

    While all of them are async, it does so on the event loop, which has to wake for them anyway.
    """

    name = "pacer"

    def __init__(self, in_flight: InFlight, *, plan_again: Callable[[], bool]) -> None:
        super().__init__()
        self._in_flight = in_flight
        self._plan_again = plan_again
        self._events: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        # When it should wake, and by how much it was late lately, in seconds.
        self._wake_at: float | None = None
        self._lateness = 0.0

    def use(self, events: asyncio.AbstractEventLoop) -> None:
        """Use the event loop of the coroutines."""
        self._events = events

    def tick(self) -> float:
        # This may ask the database, so it is never done on the event loop.
        pause = PLAN_AGAIN_SECONDS if self._plan_again() else NOTHING_PLANNED_SECONDS
        if self._events is not None and self._needs_no_thread():
            # An event loop that is closed has nothing to start.
            with suppress(RuntimeError):
                self._events.call_soon_threadsafe(self._go_on)
            return NOTHING_PLANNED_SECONDS
        return min(pause, self._release())

    def _go_on(self) -> None:
        """Release what is due, on the event loop, and come back for the next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._stopping or self._events is None:
            return
        pause = self._release()
        if not self._needs_no_thread():
            self.wake()
        elif pause < NOTHING_PLANNED_SECONDS:
            self._timer = self._events.call_later(pause, self._go_on)

    def _needs_no_thread(self) -> bool:
        return self._in_flight.undisturbed(self._in_flight.queues.needs_no_thread)

    def _release(self) -> float:
        """Let runs start whose moment has come; returns the seconds until the next."""
        moments = self._in_flight.release_planned(TOGETHER)
        now = time.monotonic()
        if self._wake_at is not None:
            self._lateness = max(now - self._wake_at, self._lateness * LATENESS_KEPT)
        self._wake_at = None
        if not moments:
            return NOTHING_PLANNED_SECONDS
        together = max(0.0, TOGETHER_SECONDS - LATENESS_COUNTS * self._lateness)
        latest = moments[0] + together * SECOND
        last = max(moment for moment in moments if moment <= latest)
        pause = max(FEWEST_SECONDS, last / SECOND - now)
        self._wake_at = now + pause
        return pause

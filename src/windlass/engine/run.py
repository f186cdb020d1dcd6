"""Running handlers: async ones by a fixed set of coroutines, sync ones by threads.

Both pull the next run when they are free; nothing is created per task. A runner never decides
anything about the row: it hands the outcome to the hold, which takes it or not.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from windlass import telemetry
from windlass.engine.context import current
from windlass.engine.hold import Hold, Run
from windlass.engine.loop import Loop
from windlass.model.outcome import Failed, Outcome, Succeeded, describe, judge
from windlass.model.payload import encode_result

SLICE_SECONDS = 0.005
SUCCESS = Succeeded()
IDLE_THREAD_SECONDS = 30.0


def arguments_of(run: Run) -> tuple[tuple[object, ...], dict[str, Any]]:
    """What to call the handler with; a turn of a schedule has no arguments."""
    return ((), {}) if run.turns else run.kind.arguments.decode(run.task.payload)


def success(result: object) -> Outcome:
    """The outcome of a handler that returned `result`."""
    if result is None:
        return SUCCESS
    try:
        return Succeeded(encode_result(result))
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        # Trying again would only return the same thing.
        return Failed(*describe(TypeError(f"the result cannot be kept: {problem}")))


def failure(run: Run, error: BaseException) -> Outcome:
    """The outcome of a handler that raised `error`."""
    try:
        return judge(error, run.kind.terms, tries=run.task.tries, random=random.random())
    except Exception as problem:
        return Failed(*describe(problem))


class Coroutines:
    """Runs async handlers on the event loop."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runners: list[asyncio.Task[None]] = []
        self._resting: list[asyncio.Future[None]] = []
        self._is_waking = False

    def start(self) -> None:
        """Begin to run what is queued, on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._runners = [
            self._loop.create_task(self._run(), name=f"windlass-runner-{index}")
            for index in range(self._hold.concurrency)
        ]

    async def stop(self) -> None:
        """End the runners; a handler that still runs is cancelled."""
        for runner in self._runners:
            runner.cancel()
        await asyncio.wait(self._runners, timeout=1.0)

    def wake(self) -> None:
        """Let resting runners look for work; from any thread."""
        if self._loop is None or self._is_waking:
            return
        self._is_waking = True
        try:
            self._loop.call_soon_threadsafe(self._wake_all)
        except RuntimeError:
            self._is_waking = False

    def _wake_all(self) -> None:
        self._is_waking = False
        queued = self._hold.asyncs.queued
        while self._resting and queued > 0:
            future = self._resting.pop()
            if not future.done():
                future.set_result(None)
                queued -= 1

    async def _run(self) -> None:
        hold = self._hold
        assert self._loop is not None
        me = asyncio.current_task()
        assert me is not None
        slice_began = time.monotonic()
        while True:
            run = hold.start_next(is_async=True)
            if run is None:
                future = self._loop.create_future()
                self._resting.append(future)
                await future
                slice_began = time.monotonic()
                continue
            outcome = await self._call(run, me)
            if outcome is not None:
                hold.end(run, outcome)
            if time.monotonic() - slice_began > SLICE_SECONDS:
                await asyncio.sleep(0)
                slice_began = time.monotonic()

    async def _call(self, run: Run, me: asyncio.Task[None]) -> Outcome | None:
        current.set(run)
        run.stop = _Stop(run, me, self._loop)
        try:
            args, kwargs = arguments_of(run)
            return success(await run.kind.function(*args, **kwargs))
        except asyncio.CancelledError as error:
            if run.stop.was_used:
                me.uncancel()
                return None
            if me.cancelling():
                raise
            return failure(run, error)
        except BaseException as error:
            return failure(run, error)
        finally:
            run.stop.is_over = True
            current.set(None)


class _Stop:
    """Stops the async handler of one run, and never the one after it."""

    __slots__ = ("_loop", "_run", "_runner", "is_over", "was_used")

    def __init__(
        self, run: Run, runner: asyncio.Task[None], loop: asyncio.AbstractEventLoop | None
    ) -> None:
        self._run = run
        self._runner = runner
        self._loop = loop
        self.is_over = False
        self.was_used = False

    def __call__(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if not self.is_over:
            self.was_used = True
            self._runner.cancel()


class Threads:
    """Runs sync handlers; threads are made as they are needed, up to the concurrency."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._condition = threading.Condition()
        self._count = 0
        self._resting = 0
        self._is_stopping = False

    def stop(self) -> None:
        """Let no thread begin another run. Threads inside a handler are left to it."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify_all()

    def wake(self) -> None:
        """Have as many threads look for work as there is work."""
        with self._condition:
            wanted = self._hold.syncs.queued
            if self._resting:
                self._condition.notify(wanted)
            while self._count < self._hold.concurrency and wanted > self._resting:
                self._count += 1
                wanted -= 1
                threading.Thread(target=self._run, name="windlass-handler", daemon=True).start()

    def abandon(self, run: Run) -> None:
        """Give up a thread that cannot be stopped; another one may take its place."""
        self._hold.abandoned += 1
        telemetry.emit(
            "task.abandoned", task=run.task.id, kind=run.kind.name, threads=self._hold.abandoned
        )
        with self._condition:
            self._count -= 1
        self.wake()

    def _run(self) -> None:
        hold = self._hold
        while not self._is_stopping:
            run = hold.start_next(is_async=False)
            if run is None:
                if not self._rest():
                    return
                continue
            abandoned = _Abandon(self, run)
            run.stop = abandoned
            outcome = self._call(run)
            if not hold.end(run, outcome) and abandoned.was_used:
                # Its place was given to another thread meanwhile.
                hold.abandoned -= 1
                return

    def _rest(self) -> bool:
        with self._condition:
            if self._hold.syncs.queued and len(self._hold.running) < self._hold.concurrency:
                # A kind may be at its limit: look again soon rather than spin.
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
            args, kwargs = arguments_of(run)
            return success(run.kind.function(*args, **kwargs))
        except BaseException as error:
            return failure(run, error)
        finally:
            current.set(None)


class _Abandon:
    """Gives up the thread of one run."""

    __slots__ = ("_run", "_threads", "was_used")

    def __init__(self, threads: Threads, run: Run) -> None:
        self._threads = threads
        self._run = run
        self.was_used = False

    def __call__(self) -> None:
        self.was_used = True
        self._threads.abandon(self._run)


class Watch(Loop):
    """Ends runs whose time is out, and all of them when no sign of life gets through."""

    name = "watch"

    def __init__(self, hold: Hold, *, despair: Callable[[], None]) -> None:
        super().__init__()
        self._hold = hold
        self._despair = despair
        timeouts = [
            load.kind.timeout / 1e6 for load in hold.loads.values() if load.kind.timeout is not None
        ]
        self._pause = min(0.05, max(0.005, min(timeouts) / 10)) if timeouts else 0.25

    def tick(self) -> float:
        self._despair()
        for run in self._hold.overdue(time.monotonic()):
            assert run.kind.timeout is not None
            error = TimeoutError(f"the handler did not end within {run.kind.timeout / 1e6:g} s")
            if self._hold.end(run, failure(run, error)) and run.stop is not None:
                run.stop()
        return self._pause

"""A worker inside another application: it is started again if it breaks off, and stopped once."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable
from typing import Protocol

from windlass import telemetry
from windlass.fork import watch_forks

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
# How long the end of the process waits for the worker after its grace.
LEAVE_SECONDS = 10.0


class Runs(Protocol):
    """A worker, or a team of several."""

    async def run(self) -> None: ...
    def stop(self) -> None: ...


class KeptWorker:
    """A worker that runs until `stop`. A broken one is replaced by a new one after a pause."""

    def __init__(self, make: Callable[[], Runs]) -> None:
        self._make = make
        self._worker: Runs | None = None
        self._lock = threading.Lock()
        self._is_stopping = threading.Event()
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self) -> None:
        """Run until `stop` is called; then running tasks are waited for."""
        self._loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE
        while not self._is_stopping.is_set():
            try:
                await self._run_one()
            except Exception as problem:
                telemetry.log.warning(
                    "the worker in this application ended: %s; another one starts in %.0f s",
                    problem,
                    pause,
                )
                await self._rest(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    def stop(self) -> None:
        """Let the worker finish what runs, and leave; from any thread."""
        with self._lock:
            self._is_stopping.set()
            if self._worker is not None:
                self._worker.stop()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake.set)

    async def _run_one(self) -> None:
        made = await asyncio.to_thread(self._make)
        with self._lock:
            if self._is_stopping.is_set():
                return
            self._worker = made
        await made.run()

    async def _rest(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), seconds)
        except TimeoutError:
            return


class WorkerThread:
    """A kept worker on a thread of its own, until the process ends. Forked children have none."""

    def __init__(self, make: Callable[[], Runs], *, grace_seconds: float) -> None:
        self._make = make
        self._wait_seconds = grace_seconds + LEAVE_SECONDS
        self._kept: KeptWorker | None = None
        self._thread: threading.Thread | None = None
        watch_forks(self)
        # `atexit` comes too late: no thread pool takes work any more, and leaving needs one.
        register = vars(threading).get("_register_atexit", atexit.register)
        register(self.stop)

    def start(self) -> None:
        """Start the worker, if it does not run yet."""
        if self._thread is not None:
            return
        kept = self._kept = KeptWorker(self._make)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(kept.run()), name="windlass-worker", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Let the worker finish what runs, and wait until it has left."""
        if self._kept is not None and self._thread is not None:
            self._kept.stop()
            self._thread.join(self._wait_seconds)
        self._kept = self._thread = None

    def after_fork(self) -> None:
        """The parent's thread is not here, so there is nothing to stop."""
        self._kept = self._thread = None

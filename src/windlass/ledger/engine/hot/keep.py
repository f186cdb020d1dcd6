"""What a hot lane does beside its callers' requests, once a second while it is used."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from windlass import telemetry
from windlass.database.database import first_line
from windlass.errors import WindlassError
from windlass.fork import watch_forks

TICK_SECONDS = 1.0
# A decision that is not recorded after this long is recorded by somebody else.
SWEEP_SECONDS = 5.0
# The thread ends when nobody used the lane for this long.
IDLE_SECONDS = 60.0


class HotKeeper:
    """Refills, tells the cache what is recorded, and records what others have left behind."""

    def __init__(self, tick: Callable[[], None], *, name: str) -> None:
        self._tick = tick
        self._name = name
        self._begin()
        watch_forks(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._used_at = 0.0

    def touch(self) -> None:
        """The lane is used."""
        self._used_at = time.monotonic()
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._stopping.clear()
                    self._thread = threading.Thread(
                        target=self._work, name="windlass-hot", daemon=True
                    )
                    self._thread.start()

    def stop(self) -> None:
        """End the thread; it begins again when the lane is used."""
        self._stopping.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def after_fork(self) -> None:
        """The thread is in the parent only."""
        self._begin()

    def _work(self) -> None:
        while not self._stopping.wait(TICK_SECONDS):
            if time.monotonic() - self._used_at > IDLE_SECONDS:
                break
            try:
                self._tick()
            except Exception as problem:
                telemetry.emit("hot.failed", lane=self._name, error=first_line(problem))
        with self._lock:
            self._thread = None


class PendingSweeps:
    """Which pending decisions are old enough to be recorded by somebody else."""

    def __init__(self, sweep: Callable[[str], None]) -> None:
        self._sweep = sweep
        self._seen: dict[str, float] = {}

    def look(self, pending: list[str], *, after: float = SWEEP_SECONDS) -> int:
        """Sweep those that were pending for that many seconds; how many."""
        now, done = time.monotonic(), 0
        self._seen = {name: self._seen.get(name, now) for name in pending}
        for name, since in self._seen.items():
            if now - since >= after:
                with suppress(WindlassError):
                    self._sweep(name)
                    done += 1
        return done

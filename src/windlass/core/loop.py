"""A loop: ticks on its own thread. Tests call `tick` by hand."""

from __future__ import annotations

import random
import threading

from windlass import telemetry
from windlass.database.database import DATABASE_ERRORS
from windlass.errors import DatabaseUnavailable

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
GIVE_UP_AFTER = 8


class Loop:
    """Start, tick, stop. A failed tick emits an event and is tried again after a growing pause."""

    name = "loop"
    longest_pause = LONGEST_PAUSE

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._stopping = False
        self._failures = 0
        self._is_database_away = False
        self.problem: Exception | None = None

    def tick(self) -> float:
        """Do the work that is due; returns the longest pause until the next tick, in seconds."""
        raise NotImplementedError

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"windlass-{self.name}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Tick now."""
        self._wake.set()

    def stop(self) -> None:
        """Start no more ticks."""
        self._stopping = True
        self._wake.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the current tick; returns whether the loop has ended."""
        if self._thread is None or self._thread is threading.current_thread():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            try:
                pause = self.tick()
            except (DatabaseUnavailable, *DATABASE_ERRORS, OSError) as problem:
                pause = self._failed("database.failed", problem)
                self._is_database_away = True
            except Exception as problem:
                pause = self._failed("loop.failed", problem)
                telemetry.log.exception("loop %s failed", self.name)
            else:
                if self._is_database_away:
                    telemetry.emit("database.back", loop=self.name)
                self._is_database_away = False
                self._failures = 0
                self.problem = None
            if pause > 0 and not self._stopping:
                self._wake.wait(pause)

    def _failed(self, event: str, problem: Exception) -> float:
        self._failures += 1
        if self._failures >= GIVE_UP_AFTER:
            self.problem = problem
        if self._failures <= 3 or self._failures % 20 == 0:
            text = (str(problem).splitlines() or [type(problem).__name__])[0][:300]
            telemetry.emit(event, loop=self.name, error=text, failures=self._failures)
        pause: float = min(FIRST_PAUSE * 2 ** min(self._failures - 1, 10), self.longest_pause)
        return pause * random.uniform(0.5, 1.0)

"""A loop: ticks on its own thread. Tests call `tick` by hand."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from windlass import telemetry
from windlass.database.database import DATABASE_ERRORS
from windlass.errors import DatabaseUnavailable, WindlassError

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
GIVE_UP_AFTER = 8


class Loop:
    """Start, tick, stop. A failed tick emits an event and is tried again after a growing pause.

    No error of a tick ends the thread, whatever its type. If the thread ends by an error anyway,
    `on_death` is called, and its worker stops: nobody else does the work of this loop.
    """

    name = "loop"
    longest_pause = LONGEST_PAUSE
    # The pause before the first tick, unless it is woken.
    first_pause = 0.0

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._on_death: Callable[[Loop, BaseException], None] | None = None
        self._wake = threading.Event()
        self._stopping = False
        self._failures = 0
        self._is_database_away = False
        self.problem: Exception | None = None

    def tick(self) -> float:
        """Do the work that is due; returns the longest pause until the next tick, in seconds."""
        raise NotImplementedError

    def start(self, *, on_death: Callable[[Loop, BaseException], None] | None = None) -> None:
        """Tick on a thread of its own until `stop`."""
        self._on_death = on_death
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
        try:
            if self.first_pause:
                self._wake.wait(self.first_pause)
            while not self._stopping:
                self._wake.clear()
                pause = self._try_to_tick()
                if pause > 0 and not self._stopping:
                    self._wake.wait(pause)
        except BaseException as problem:
            if self._on_death is None:
                raise
            self._on_death(self, problem)

    def _try_to_tick(self) -> float:
        try:
            pause = self.tick()
        except (DatabaseUnavailable, *DATABASE_ERRORS, OSError) as problem:
            pause = self._failed("database.failed", problem)
            self._is_database_away = True
        except BaseException as problem:
            # A CancelledError or a SystemExit would end the thread, and no one would notice.
            pause = self._failed("loop.failed", problem)
            telemetry.log.exception("loop %s failed", self.name)
        else:
            if self._is_database_away:
                telemetry.emit("database.back", loop=self.name)
            self._is_database_away = False
            self._failures = 0
            self.problem = None
        return pause

    def _failed(self, event: str, problem: BaseException) -> float:
        self._failures += 1
        if self._failures >= GIVE_UP_AFTER:
            mine = WindlassError(f"loop {self.name} failed by {problem!r:.200}")
            self.problem = problem if isinstance(problem, Exception) else mine
        if self._failures <= 3 or self._failures % 20 == 0:
            text = (str(problem).splitlines() or [type(problem).__name__])[0][:300]
            telemetry.emit(event, loop=self.name, error=text, failures=self._failures)
        pause: float = min(FIRST_PAUSE * 2 ** min(self._failures - 1, 10), self.longest_pause)
        return pause * random.uniform(0.5, 1.0)

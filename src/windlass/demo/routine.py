"""An action that repeats on a thread until it is stopped."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

logger = logging.getLogger("windlass.demo")


class Routine:
    """Calls `act` after `first` seconds, then at random intervals of `every` seconds."""

    def __init__(
        self, name: str, act: Callable[[], object], *, first: float, every: tuple[float, float]
    ) -> None:
        self._act = act
        self._first = first
        self._every = every
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"demo-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Make no further calls; returns at once."""
        self._stopped.set()

    def join(self, seconds: float) -> None:
        """Wait for the call that is running."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def pause(self, seconds: float) -> bool:
        """Wait during a call; False if the routine was stopped."""
        return not self._stopped.wait(seconds)

    def _run(self) -> None:
        wait = self._first
        while not self._stopped.wait(wait):
            try:
                self._act()
            except Exception:
                logger.exception("%s", self._thread.name)
            wait = random.uniform(*self._every)

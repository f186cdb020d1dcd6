"""Actions that repeat on a thread until they are stopped, and the diary of what they did."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

logger = logging.getLogger("windlass.demo")

KEPT = 6

Mood = Literal["good", "bad", "plain"]


class Routine:
    """Calls `act` after `first` seconds, then at random intervals of `every` seconds."""

    def __init__(
        self, name: str, act: Callable[[], object], *, first: float, every: tuple[float, float]
    ) -> None:
        self._act = act
        self._first = first
        self._every = every
        # When the next call begins, on the monotonic clock; None during a call.
        self.next_at: float | None = time.monotonic() + first
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

    def text(self, coming: str, there: str) -> str:
        """`there` during a call, else `coming` and the seconds until then."""
        at = self.next_at
        if at is None:
            return there
        return f"{coming} in {max(0.0, at - time.monotonic()):.0f} s"

    def _run(self) -> None:
        wait = self._first
        while not self._stopped.wait(wait):
            self.next_at = None
            try:
                self._act()
            except Exception:
                logger.exception("%s", self._thread.name)
            wait = random.uniform(*self._every)
            self.next_at = time.monotonic() + wait


@dataclass(frozen=True)
class Note:
    """One event of the demo."""

    at: float
    text: str
    mood: Mood


class Diary:
    """The last few notes; `tell` gets each new one."""

    def __init__(self) -> None:
        self.tell: Callable[[Note], None] | None = None
        self._notes: deque[Note] = deque(maxlen=KEPT)
        self._lock = threading.Lock()

    def write(self, text: str, mood: Mood = "plain") -> None:
        """Add a note about something that happened now."""
        note = Note(time.time(), text, mood)
        with self._lock:
            self._notes.append(note)
        if self.tell is not None:
            self.tell(note)

    def last(self) -> list[Note]:
        """The last notes, oldest first."""
        with self._lock:
            return list(self._notes)

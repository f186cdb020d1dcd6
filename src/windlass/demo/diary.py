"""The events of the demo, in order."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

KEPT = 6

Mood = Literal["good", "bad", "plain"]


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

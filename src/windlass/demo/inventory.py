"""The stock of the other system: what it has on hand of each product."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from zlib import crc32

START = 60
LOW = 4
DELIVERED = 40
# Other shops sell from the same store: one piece of a product in about this time.
SOLD_EVERY_SECONDS = 45.0


class Inventory:
    """Counts the pieces of each product; it is asked for one product at a time."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._pieces: dict[str, int] = {}
        self._asked_at: dict[str, float] = {}
        # Only this shop sells these, so nothing else moves them.
        self._ours: set[str] = set()
        self._moved: set[str] = set()
        self._lock = threading.Lock()

    def ask(self, code: str) -> int:
        """How many pieces of a product are on hand now."""
        with self._lock:
            if code not in self._ours:
                self._sell_elsewhere(code)
            return max(0, self._pieces[code])

    def move(self, movement: str, lines: dict[str, int]) -> bool:
        """Add what came and take away what left; False if this `movement` was counted before."""
        with self._lock:
            if movement in self._moved:
                return False
            self._moved.add(movement)
            for code, pieces in lines.items():
                if code not in self._ours:
                    self._ours.add(code)
                    self._pieces[code] = 0
                self._pieces[code] += pieces
            return True

    def _sell_elsewhere(self, code: str) -> None:
        now = self._now()
        before = self._asked_at.setdefault(code, now)
        self._asked_at[code] = now
        left = self._pieces.setdefault(code, crc32(code.encode()) % START)
        if left < LOW:
            left += DELIVERED
        sold = (now - before) / SOLD_EVERY_SECONDS * random.uniform(0.5, 1.5)
        # The part of a piece that is left over decides by chance.
        whole = int(sold + random.random())
        self._pieces[code] = max(0, left - whole)

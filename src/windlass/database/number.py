"""Numbers for rows, batches and workers: unique in the database, short, roughly in time order.

They are taken in blocks, before they are used. So a transaction whose answer was lost can run again
with the same numbers, and takes effect once. A block is used for a short time only, to keep numbers
in time order.
"""

from __future__ import annotations

import threading
import time
from itertools import chain

from windlass.database.database import TRIES, Database
from windlass.database.dialect.base import BLOCK, Executor
from windlass.fork import watch_forks

FRESH_SECONDS = 10.0
MOST_BLOCKS = 64


class Numbers:
    """Numbers of one database; threads may share it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.after_fork()
        watch_forks(self)

    def after_fork(self) -> None:
        """Forget the numbers of the parent."""
        self._lock = threading.Lock()
        self._left: list[range] = []
        self._taken_at = 0.0
        self._blocks = 1

    def take(
        self, count: int = 1, *, inside: Executor | None = None, tries: int = TRIES
    ) -> list[int]:
        """`count` new numbers, taken `inside` the caller's transaction if they must be."""
        dialect = self._database.dialect
        if inside is not None and dialect.numbers_join:
            return list(chain.from_iterable(dialect.take_numbers(inside, count)))
        with self._lock:
            if time.monotonic() - self._taken_at > FRESH_SECONDS:
                self._left, self._blocks = [], 1
            numbers: list[int] = []
            while len(numbers) < count:
                if not self._left:
                    self._fetch(count - len(numbers), tries)
                numbers += self._use(count - len(numbers))
            return numbers

    def _fetch(self, count: int, tries: int) -> None:
        wanted = max(self._blocks * BLOCK, count)
        self._left = self._database.write(
            lambda connection: self._database.dialect.take_numbers(connection, wanted), tries=tries
        )
        self._blocks = min(self._blocks * 2, MOST_BLOCKS)
        self._taken_at = time.monotonic()

    def _use(self, count: int) -> list[int]:
        first, *rest = self._left
        self._left = ([first[count:]] if len(first) > count else []) + rest
        return list(first[:count])

"""The rows that a worker has, and the runs whose outcomes wait to be written."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from windlass.value.period import HURRIED
from windlass.value.task import Claimed

if TYPE_CHECKING:
    from windlass.core.run.ready import Run

# How long outcomes of rated kinds wait for others. A crash repeats what was not written.
LINGER_SECONDS = 0.25
# How long, if the row is kept: somebody may wait for its result.
KEPT_LINGER_SECONDS = 0.1


class KnownRows:
    """The rows that a worker has. Call `add` and `forget` under the lock."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._runs: dict[int, Run] = {}
        self._keys: set[tuple[str, str]] = set()
        # Rows forgotten during the current read: it may still see their old state.
        self._let_go: set[int] | None = None

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, number: object) -> bool:
        with self._lock:
            return number in self._runs

    @property
    def ids(self) -> set[int]:
        with self._lock:
            return set(self._runs)

    def begin_read(self) -> None:
        """A read starts; `new` ends it."""
        with self._lock:
            self._let_go = set()

    def new(self, tasks: Sequence[Claimed]) -> list[Claimed]:
        """The rows of a read that were not in flight at any time since it began."""
        with self._lock:
            let_go, self._let_go = self._let_go or set(), None
            return [
                task
                for task in tasks
                if task.id not in self._runs
                and task.id not in let_go
                # A row that replaced a running row waits until that ends.
                and (task.task_key is None or (task.kind, task.task_key) not in self._keys)
            ]

    def let_go(self) -> set[int]:
        """The rows that were forgotten since a read began; ends it."""
        with self._lock:
            let_go, self._let_go = self._let_go or set(), None
            return let_go

    def add(self, run: Run) -> None:
        self._runs[run.task.id] = run
        if run.task.task_key is not None:
            self._keys.add((run.task.kind, run.task.task_key))

    def forget(self, runs: Iterable[Run]) -> None:
        for run in runs:
            if self._runs.get(run.task.id) is not run:
                # The worker has joined again and taken the row again.
                continue
            del self._runs[run.task.id]
            if run.task.task_key is not None:
                self._keys.discard((run.task.kind, run.task.task_key))
            if self._let_go is not None:
                self._let_go.add(run.task.id)


class EndedRuns:
    """The runs whose outcome waits to be written, or is being written. Used under the lock.

    Runs of rated kinds end one by one. Their outcomes wait a moment for each other, so that one
    commit serves several.
    """

    def __init__(self) -> None:
        self.waiting: deque[Run] = deque()
        self.committing: dict[int, Run] = {}
        # When they are written, on the monotonic clock.
        self._write_at = 0.0

    def __len__(self) -> int:
        return len(self.waiting) + len(self.committing)

    def add(self, run: Run, now: float) -> bool:
        """Add a run; returns whether the finish must hear of it."""
        write_at = now + _linger_seconds(run)
        self.waiting.append(run)
        if len(self.waiting) > 1 and write_at >= self._write_at:
            return False
        self._write_at = write_at
        return True

    def wait_seconds(self, now: float) -> float:
        """How long the outcomes may wait for more; 0 if they must be written now."""
        return max(0.0, self._write_at - now)

    def take(self, most: int) -> list[Run]:
        count = min(most, len(self.waiting))
        taken = [self.waiting.popleft() for _ in range(count)]
        # What is left, or put back, is written at once.
        self._write_at = 0.0
        self.committing.update((run.task.id, run) for run in taken)
        return taken

    def release(self, runs: list[Run]) -> None:
        """They are no longer being written."""
        for run in runs:
            if self.committing.get(run.task.id) is run:
                del self.committing[run.task.id]


def _linger_seconds(run: Run) -> float:
    """How long an outcome may wait for others; 0 if somebody waits for it."""
    if not run.load.is_rated or run.on_finish or run.has_lane or run.task.flow_id is not None:
        return 0.0
    if run.is_visit:
        # A caller waits for an item that was hurried.
        return 0.0 if run.task.priority == HURRIED else LINGER_SECONDS
    return LINGER_SECONDS if run.leaves_nothing else KEPT_LINGER_SECONDS

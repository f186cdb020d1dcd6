"""Items of sweeps inside a worker: rows that run without being tasks."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from msgspec.structs import replace

from windlass.clock import Clock
from windlass.core.run.load import KindLoad
from windlass.core.run.ready import Keeper, Run, State
from windlass.core.task.kind import Kind
from windlass.source.key_text import Key, shown
from windlass.sweep.model import terms_of
from windlass.value.outcome import Cancelled, Failed, Outcome, Retried, Snoozed, Succeeded
from windlass.value.task import Claimed

# In memory only, and larger than any number in a database.
NUMBERS = count(1 << 63)

Row = tuple[Key, Any]


class ItemRun(Run):
    """One call of the handler of a sweep, with one row or several."""

    __slots__ = ("is_again", "is_last", "last", "retry_at", "rows")

    def __init__(
        self, task: Claimed, load: KindLoad, rows: Sequence[Row], *, keeper: Keeper | None = None
    ) -> None:
        super().__init__(task, load)
        self.number = next(NUMBERS)
        self.keeper = keeper
        self.rows = rows
        # The breakpoint may move to this key when the run has ended.
        self.last: Key = rows[-1][0]
        # Whether a worker that died may already have run it.
        self.is_again = False
        # Whether its last row is the last of a page.
        self.is_last = False
        # When it is retried, if it is kept as a failed item until then.
        self.retry_at: int | None = None

    @property
    def key(self) -> str | None:
        """The key of its first row, for people."""
        return shown(known_by(self.kind, self.rows[0]))

    def call(self) -> Any:
        """Call the handler with its rows, or with their keys."""
        terms = terms_of(self.kind)
        assert terms is not None
        if terms.key_only:
            given = [known_by(self.kind, row) for row in self.rows]
        else:
            given = [row for _, row in self.rows]
        return self.kind.function(given if terms.many else given[0])


class WaitingItems:
    """Items that have to run again: some were taken back, some wait for their next try."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: deque[ItemRun] = deque()
        self._delayed: list[tuple[int, int, ItemRun]] = []

    def add(self, run: ItemRun) -> None:
        """A run may begin now."""
        self._ready.append(run)

    def put_back(self, run: Run) -> None:
        """A run was queued and has to wait; it comes first when it may begin."""
        assert isinstance(run, ItemRun)
        self._ready.appendleft(run)

    def delay(self, run: ItemRun, outcome: Retried | Snoozed) -> None:
        """Try a run again when its outcome says."""
        now = self._clock.now()
        tries = int(isinstance(outcome, Retried))
        run.task = replace(run.task, attempt=run.task.attempt + tries, started_at=now)
        run.state = State.QUEUED
        run.is_probe = False
        heapq.heappush(self._delayed, (now + outcome.delay, run.number, run))

    def take(self, most: int) -> list[ItemRun]:
        """Up to `most` runs that may begin now."""
        while self.has_due:
            self._ready.append(heapq.heappop(self._delayed)[2])
        return [self._ready.popleft() for _ in range(min(most, len(self._ready)))]

    def give_up_delayed(self) -> Iterator[tuple[ItemRun, str, int]]:
        """Forget the delayed runs; each with its error and the time of its next try."""
        delayed, self._delayed = self._delayed, []
        for due_at, _, run in delayed:
            error = run.outcome.error if isinstance(run.outcome, Retried) else "it was put off"
            yield run, error, due_at

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)

    @property
    def has_delayed(self) -> bool:
        return bool(self._delayed)

    @property
    def has_due(self) -> bool:
        """Whether the time of a delayed run has come."""
        return bool(self._delayed) and self._delayed[0][0] <= self._clock.now()

    def __len__(self) -> int:
        return len(self._ready) + len(self._delayed)


def known_by(kind: Kind, row: Row) -> Key:
    """The key that people know a row by: its own, unless the source has another."""
    key, what = row
    key_of: Callable[[Any], Key] | None = getattr(terms_of(kind).source, "key_of", None)
    return key if key_of is None or what is None else key_of(what)


def is_over(outcome: Outcome | None) -> bool:
    """Whether an item will not be tried again."""
    return isinstance(outcome, Succeeded | Failed | Cancelled)


def claimed(kind: str, number: int, *, batch: int, worker: int, now: int) -> Claimed:
    """The items of a claimed range, or of claimed retries, as the runners see them."""
    return Claimed(
        id=number,
        kind=kind,
        task_key=None,
        priority=0,
        due_at=now,
        payload="null",
        attempt=1,
        lost=0,
        started_at=now,
        bucket=0,
        batch=batch,
        worker=worker,
    )

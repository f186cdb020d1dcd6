"""A range in the hands of a worker: what is read, what runs, and how far all is done.

Rows are reserved and read by a thread of their own, run in any order, and passed in theirs: the
breakpoint is the last key before the first one that has not ended. What has failed for good is
passed too, and set aside in the very transaction that saves the breakpoint beyond it.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy

from msgspec.structs import replace

from windlass.clock import Clock
from windlass.core.run.load import KindLoad
from windlass.core.run.ready import Run, State
from windlass.sweep.engine.item import ItemRun, Row, claimed, is_over
from windlass.sweep.model import Range, SweepTerms
from windlass.sweep.store.failed_item import NewFailure
from windlass.sweep.store.range import Save
from windlass.value.key import Key, decoded, encode_key
from windlass.value.outcome import Failed, Outcome, Retried, Snoozed, Succeeded

SAVE_EVERY = 1.0
SAVE_APART = 0.25
# How much work is reserved ahead, in seconds and in pages.
AHEAD_SECONDS = 2.0
MOST_PAGES = 8
FEWEST_ROWS = 16
# How many items may wait for the first one to end.
LONGEST_WINDOW = 20_000
STEADY = 0.7


class Tally:
    """What has ended since it was last written down, for statistics and the breaker."""

    def __init__(self) -> None:
        self.done = 0
        self.failed = 0
        self.retried = 0
        self.milliseconds = 0.0
        # In order, but of successes in a row only one: more of them tell nothing.
        self.outcomes: list[Run] = []
        self._errors_in_a_row = 0
        self._enough_errors: int | None = None

    def note(self, run: Run, rows: int) -> None:
        """Count how a run ended. One that was put off tells nothing, unless a breaker waits."""
        if isinstance(run.outcome, Snoozed):
            if run.is_probe:
                self.outcomes.append(copy(run))
            return
        self.milliseconds += run.milliseconds
        is_ok = not isinstance(run.outcome, Failed | Retried)
        if isinstance(run.outcome, Failed):
            self.failed += rows
        elif isinstance(run.outcome, Retried):
            self.retried += rows
        else:
            self.done += rows
        if run.kind.breaker is not None:
            self._enough_errors = run.kind.breaker.errors
            self._errors_in_a_row = 0 if is_ok else self._errors_in_a_row + 1
            last = self.outcomes[-1] if self.outcomes else None
            is_same = last is not None and isinstance(last.outcome, Succeeded)
            if not (is_ok and is_same) or run.is_probe:
                self.outcomes.append(copy(run))

    @property
    def is_urgent(self) -> bool:
        """Whether a breaker must hear of it at once."""
        return any(
            run.is_probe or isinstance(run.outcome, Failed | Retried) for run in self.outcomes
        )

    @property
    def opens_breaker(self) -> bool:
        """Whether these alone are enough errors in a row: nothing more should begin."""
        return self._enough_errors is not None and self._errors_in_a_row >= self._enough_errors

    def successor(self) -> Tally:
        """An empty one that goes on counting errors in a row."""
        following = Tally()
        if not self.opens_breaker:
            following._errors_in_a_row = self._errors_in_a_row
        return following

    @property
    def is_empty(self) -> bool:
        return not (self.done or self.failed or self.retried or self.outcomes)


class Later:
    """Runs that are to be tried again, each at its time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, ItemRun]] = []

    def put(self, run: ItemRun, outcome: Outcome) -> None:
        """Have a run tried again when its outcome says."""
        assert isinstance(outcome, Retried | Snoozed)
        now = self._clock.now()
        more = int(isinstance(outcome, Retried))
        run.task = replace(run.task, attempt=run.task.attempt + more, started_at=now)
        run.state = State.QUEUED
        run.is_probe = False
        heapq.heappush(self._heap, (now + outcome.delay, run.number, run))

    def give_up(self) -> Iterator[tuple[int, ItemRun]]:
        """All of them, each with its time; nobody waits for them any more."""
        heap, self._heap = self._heap, []
        for due_at, _, run in heap:
            yield due_at, run

    @property
    def is_due(self) -> bool:
        """Whether the time of one has come."""
        return bool(self._heap) and self._heap[0][0] <= self._clock.now()

    def due(self) -> Iterator[ItemRun]:
        """Those whose time has come."""
        while self._heap and self._heap[0][0] <= self._clock.now():
            yield heapq.heappop(self._heap)[2]

    def __len__(self) -> int:
        return len(self._heap)


class Part:
    """One claimed range. The sweeper's thread moves it; runners only tell it what ended."""

    def __init__(
        self,
        found: Range,
        load: KindLoad,
        terms: SweepTerms,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        assert found.batch is not None
        assert found.worker is not None
        self.range = found
        self.load = load
        self.terms = terms
        self.batch = found.batch
        self.worker = found.worker
        self._clock = clock
        self._wake = wake
        self._task = claimed(
            load.kind.name, found.id, batch=found.batch, worker=found.worker, now=clock.now()
        )
        self.end = found.end
        self.read_to = found.breakpoint
        self.breakpoint = found.breakpoint
        self.again_to = found.again_to
        self.is_careful = found.is_careful
        # As its row has them: until all agree nothing is reserved.
        self.stored_careful = found.is_careful
        self.stored_again_to = found.again_to
        self.is_exhausted = False
        self.is_reading = False
        self.is_lost = False
        # What keeps it from being saved; nothing more is read until it can be.
        self.problem: Exception | None = None
        # Whether it straggled when that was looked at last, and whether people know.
        self.straggles = False
        self.is_told = False
        self.read_again_at = 0.0
        self._read_at = 0.0
        self._goal = 0
        self.done, self.failed, self.repeated = found.done, found.failed, found.repeated
        self.failures: list[tuple[ItemRun, str]] = []
        self.tally = Tally()
        self.later = Later(clock)
        self._entries: deque[tuple[Sequence[Row], bool, bool]] = deque()
        self.rows_waiting = 0
        self._ready: deque[ItemRun] = deque()
        self._window: deque[ItemRun] = deque()
        self._last_key: Key | None = decoded(found.breakpoint)
        self._has_moved = False
        self._page_ended = False
        self._saved_at = 0.0
        self._measured_at = time.monotonic()
        self._measured = self.done + self.failed
        self._is_measured = False
        self.per_second = 0.0

    # Reading

    @property
    def wants_rows(self) -> bool:
        """Whether it is time to reserve and read more."""
        if self.is_reading or self.is_exhausted or self.is_lost or self.problem is not None:
            return False
        if not self._is_stored or time.monotonic() < self.read_again_at:
            return False
        if self.is_careful:
            return not self.in_flight and not self._has_moved
        return self.rows_waiting < self._low and len(self._window) < LONGEST_WINDOW

    @property
    def _is_stored(self) -> bool:
        """Whether its row knows what is done again here, and with what care."""
        stored = self.stored_careful, self.stored_again_to
        return stored == (self.is_careful, self.again_to)

    @property
    def rows_wanted(self) -> int:
        """How many rows to reserve: some seconds of work, so that others may have the rest."""
        if self.is_careful:
            return 1
        batch = self.terms.batch
        if self.terms.many:
            pages = int(self.per_second * AHEAD_SECONDS / batch)
            return batch * min(MOST_PAGES, max(2, pages))
        fewest = max(min(batch, max(FEWEST_ROWS, 2 * self.load.limit)), self._goal)
        return min(MOST_PAGES * batch, max(fewest, int(self.per_second * AHEAD_SECONDS)))

    @property
    def _low(self) -> int:
        if self.terms.many:
            return 2 * self.terms.batch
        return max(self.load.limit, int(self.per_second * AHEAD_SECONDS / 4))

    def begin_reading(self) -> None:
        """Rows are asked for. If the last ones lasted no time, more of them are."""
        now = time.monotonic()
        is_fast = now - self._read_at < AHEAD_SECONDS / 8
        self._goal = 2 * self.rows_wanted if is_fast else 0
        self._read_at = now
        self.is_reading = True

    def extend(self, rows: Sequence[Row], *, is_again: bool) -> None:
        """Have a page of rows that were reserved and read."""
        size = self.terms.batch if self.terms.many else 1
        for begin in range(0, len(rows), size):
            part = rows[begin : begin + size]
            is_last = begin + size >= len(rows)
            self._entries.append((part, is_again, is_last))
        self.rows_waiting += len(rows)

    # Running

    def issue(self, most: int) -> list[ItemRun]:
        """Up to so many runs that may begin now: those taken back, those due again, new ones."""
        runs: list[ItemRun] = []
        self._ready.extend(self.later.due())
        while self._ready and len(runs) < most:
            runs.append(self._ready.popleft())
        while self._entries and len(runs) < most:
            rows, is_again, is_last = self._entries.popleft()
            self.rows_waiting -= len(rows)
            run = ItemRun(self._task, self.load, self, rows)
            run.is_again, run.is_last = is_again, is_last
            self._window.append(run)
            runs.append(run)
        return runs

    @property
    def only_waits(self) -> bool:
        """Whether all that was read is done, but for items that are to be tried again later."""
        if not len(self.later) or self.later.is_due or self.has_more or self.wants_rows:
            return False
        return sum(run.state is not State.ENDED for run in self._window) == len(self.later)

    def set_waiting_aside(self) -> None:
        """Set aside what is to be tried again later, with its time, and so go past it.

        For a worker that does not wait for it: otherwise all that ran beyond would run again.
        """
        for due_at, run in self.later.give_up():
            error = run.outcome.error if isinstance(run.outcome, Retried) else "it was put off"
            tries = run.task.attempt - int(isinstance(run.outcome, Retried))
            run.task = replace(run.task, attempt=tries)
            run.outcome, run.state = Failed(error, error), State.ENDED
            run.retry_at = due_at

    def landed(self, run: Run) -> None:
        """A run has ended; called under the lock of the rows in flight."""
        assert isinstance(run, ItemRun)
        outcome = run.outcome
        self.tally.note(run, len(run.rows))
        if isinstance(outcome, Retried | Snoozed):
            self.later.put(run, outcome)
        if self.tally.opens_breaker:
            self.load.is_tripped = True
        if not self.load.queued or self.load.is_tripped:
            self._wake()

    def taken_back(self, run: Run) -> None:
        """A run is not to begin now; it comes first when it may."""
        assert isinstance(run, ItemRun)
        self._ready.appendleft(run)

    @property
    def has_some(self) -> bool:
        """Whether something could begin."""
        return bool(self.has_more or len(self.later))

    @property
    def has_more(self) -> bool:
        """Whether rows wait that could begin, or are about to come."""
        return bool(self._entries or self._ready or self.is_reading)

    @property
    def in_flight(self) -> bool:
        """Whether something was issued and has not been passed, or waits to be issued."""
        return bool(self._window or self._entries)

    @property
    def is_finished(self) -> bool:
        """Whether all there is was read, and all that was read is done."""
        return self.is_exhausted and not self.is_reading and not self.in_flight

    @property
    def is_still(self) -> bool:
        """Whether nothing of it runs or is queued; items may wait for their next try."""
        waiting = len(self.later) + len(self._ready)
        open_ = sum(run.state is not State.ENDED for run in self._window)
        return not self.is_reading and open_ == waiting

    @property
    def has_begun_beyond(self) -> bool:
        """Whether anything beyond the breakpoint has ended, or was running until now."""
        return any(run.state is not State.QUEUED for run in self._window)

    # Saving

    def advance(self) -> None:
        """Pass everything that has ended, up to the first that has not."""
        window = self._window
        while window and window[0].state is State.ENDED and is_over(window[0].outcome):
            run = window.popleft()
            rows = len(run.rows)
            if isinstance(run.outcome, Failed):
                self.failed += rows
                self.failures.append((run, run.outcome.error))
            else:
                self.done += rows
            self.repeated += rows if run.is_again else 0
            self._last_key, self._has_moved = run.last, True
            self._page_ended = self._page_ended or run.is_last

    def wants_save(self, now: float) -> bool:
        """Whether it is time: every second, at the end of a page, and when a breaker must hear."""
        since = now - self._saved_at
        if self.problem is not None:
            return since >= SAVE_EVERY
        if since >= SAVE_EVERY or not self._is_stored:
            return True
        if (self.is_careful and self._has_moved) or self.load.is_tripped:
            return True
        return since >= SAVE_APART and (self._page_ended or self.tally.is_urgent)

    def save(self, numbers: Iterator[int]) -> Save:
        """How it is now, to be written down."""
        if self._has_moved:
            self.breakpoint = encode_key(self._last_key)
        self._measure()
        return Save(
            id=self.range.id,
            batch=self.batch,
            breakpoint=self.breakpoint,
            done=self.done,
            failed=self.failed,
            repeated=self.repeated,
            per_second=self.per_second,
            again_to=self.again_to,
            is_careful=self.is_careful,
            failures=[
                NewFailure(
                    next(numbers),
                    encode_key(key),
                    error,
                    self.range.round,
                    run.task.attempt,
                    run.retry_at,
                )
                for run, error in self.failures
                for key, _ in run.rows
            ],
        )

    @property
    def failed_rows(self) -> int:
        """How many rows are about to be set aside."""
        return sum(len(run.rows) for run, _ in self.failures)

    def saved(self, what: Save) -> None:
        """What `save` made was written down."""
        self.failures = []
        self._saved_at = time.monotonic()
        self._has_moved = self._page_ended = False
        self.stored_careful, self.stored_again_to = what.is_careful, what.again_to

    def not_saved(self, problem: Exception) -> None:
        """It cannot be written down; that is tried again, but not at once."""
        self.problem = problem
        self._saved_at = time.monotonic()

    def pass_to(self, place: str | None) -> None:
        """All up to `place` was reserved and nothing of it is left: be there."""
        self.breakpoint, self._last_key = place, decoded(place)
        self._has_moved = place is not None

    def _measure(self) -> None:
        now, ended = time.monotonic(), self.done + self.failed
        elapsed = now - self._measured_at
        if elapsed < SAVE_EVERY / 2:
            return
        speed = max(0, ended - self._measured) / elapsed
        steady = STEADY if self._is_measured else 0.0
        self.per_second = steady * self.per_second + (1 - steady) * speed
        self._measured_at, self._measured, self._is_measured = now, ended, True

"""One range in a worker: what is read, what runs, and how far it is done.

Rows are reserved and read on another thread and run in any order, as items: runs without a task
row. The breakpoint is the last key before the first item that has not ended. It also moves past
items that have failed for good: they are kept as failed items in the same transaction that saves
the breakpoint beyond them.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from windlass.clock import Clock
from windlass.core.run.contract import Keeper
from windlass.core.run.ready import KindLoad, Run, State
from windlass.core.task.kind import Given, Kind
from windlass.core.task.sweep_run import GivenRun
from windlass.source.contract import Key, decoded, encode_key, shown
from windlass.sweep.engine.reader import Reading, ReadRequest, Row, known_by
from windlass.sweep.model import Range, terms_of
from windlass.sweep.store.failed_item import FailedItem
from windlass.sweep.store.range import Save
from windlass.value.outcome import Cancelled, Failed, Outcome, Retried, Snoozed, Succeeded
from windlass.value.task import Claimed

if TYPE_CHECKING:
    from windlass.core.trace.recorder import PageSpan

SAVE_EVERY = 1.0
SAVE_APART = 0.25
# How much work is reserved ahead, in seconds and in pages.
AHEAD_SECONDS = 2.0
MOST_PAGES = 8
FEWEST_ROWS = 16
# How many items may wait for the first one to end.
LONGEST_WINDOW = 20_000
STEADY = 0.7
# In memory only, and larger than any number in a database.
NUMBERS = count(1 << 63)
# How many items of each range are noted for visits that ask how fresh they are. All are noted if
# visits have asked, at most this many in one save.
FIRST_NOTED = 1_000
MOST_NOTED = 5_000
# The outcomes of items that will not be tried again.
OVER = (Succeeded, Failed, Cancelled)


class ItemRun(Run):
    """One call of the handler of a sweep, with one row or several."""

    __slots__ = ("is_again", "is_last", "is_put_off", "last", "retry_at", "rows")

    def __init__(
        self,
        task: Claimed,
        load: KindLoad,
        rows: Sequence[Row],
        *,
        kind: Kind,
        keeper: Keeper | None = None,
    ) -> None:
        super().__init__(task, load)
        # Runs over sources that were given at start share the load, and each has its own source.
        self.kind = kind
        if (run := terms_of(kind).run) is not None:
            self.kept = {GivenRun: run}
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
        # Whether it is kept so because it was put off: it has not failed.
        self.is_put_off = False

    @property
    def key(self) -> str | None:
        """The key of its first row, for people."""
        return shown(known_by(self.kind, self.rows[0]))

    def given(self) -> Given:
        """The handler gets its rows, or their keys."""
        terms = terms_of(self.kind)
        given: list[object]
        if terms.key_only:
            given = [known_by(self.kind, row) for row in self.rows]
        else:
            given = [row for _, row in self.rows]
        return (given if terms.many else given[0],), {}


class ReadRows(NamedTuple):
    """Rows that were read, for one run that has not been issued."""

    rows: Sequence[Row]
    is_again: bool
    is_last: bool
    page: PageSpan | None


@dataclass(eq=False)
class WaitingItems:
    """Items that have to run again: some were taken back, some wait for their next try."""

    clock: Clock
    ready: deque[ItemRun] = field(default_factory=deque)
    # By the time of the next try.
    delayed: list[tuple[int, int, ItemRun]] = field(default_factory=list)

    def put_back(self, run: Run) -> None:
        """A run was queued and has to wait; it comes first when it may begin."""
        assert isinstance(run, ItemRun)
        self.ready.appendleft(run)

    def delay(self, run: ItemRun, outcome: Retried | Snoozed) -> None:
        """Try a run again when its outcome says."""
        now = self.clock.now()
        tries = int(isinstance(outcome, Retried))
        run.task = replace(run.task, attempt=run.task.attempt + tries, started_at=now)
        run.state = State.QUEUED
        run.is_probe = False
        heapq.heappush(self.delayed, (now + outcome.delay, run.number, run))

    def take(self, most: int) -> list[ItemRun]:
        """Up to `most` runs that may begin now."""
        while self.has_due:
            self.ready.append(heapq.heappop(self.delayed)[2])
        return [self.ready.popleft() for _ in range(min(most, len(self.ready)))]

    def give_up_delayed(self) -> Iterator[tuple[ItemRun, str, int]]:
        """Forget the delayed runs; each with its error and the time of its next try."""
        delayed, self.delayed = self.delayed, []
        for due_at, _, run in delayed:
            yield run, _why_delayed(run.outcome), due_at

    @property
    def has_due(self) -> bool:
        """Whether the time of a delayed run has come."""
        return bool(self.delayed) and self.delayed[0][0] <= self.clock.now()

    def __len__(self) -> int:
        return len(self.ready) + len(self.delayed)


def _why_delayed(outcome: Outcome | None) -> str:
    match outcome:
        case Retried():
            return outcome.error
        case Snoozed(overload=str()):
            return f"it was put off: {outcome.overload}"
    return "it was put off"


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


@dataclass(eq=False)
class Tally:
    """Counts how runs ended since the last save, for statistics and for the breaker."""

    done: int = 0
    failed: int = 0
    retried: int = 0
    # Runs that met an overload; they count as nothing else.
    overloaded: int = 0
    milliseconds: float = 0.0
    # Of each run, for metrics.
    durations: list[float] = field(default_factory=list)
    # In order; of several successes in a row only the first, because the breaker needs one.
    outcomes: list[Run] = field(default_factory=list)
    errors_in_a_row: int = 0
    enough_errors: int | None = None
    # The keys of rows that were done, and when the first of them was.
    did: list[Key] = field(default_factory=list)
    did_since: int = 0

    def note_done(self, rows: Sequence[Row], at: int) -> None:
        """Remember the keys of rows that were done `at`, unless there are very many."""
        if not self.did:
            self.did_since = at
        if len(self.did) < MOST_NOTED:
            self.did.extend(key for key, _ in rows)

    def note(self, run: Run, rows: int) -> None:
        """Count how a run ended. A snoozed run counts only if it is the probe of a breaker."""
        if isinstance(run.outcome, Snoozed):
            self.overloaded += run.outcome.overload is not None
            if run.is_probe:
                self.outcomes.append(copy(run))
            return
        self.milliseconds += run.milliseconds
        self.durations.append(run.milliseconds)
        is_ok = not isinstance(run.outcome, Failed | Retried)
        if isinstance(run.outcome, Failed):
            self.failed += rows
        elif isinstance(run.outcome, Retried):
            self.retried += rows
        else:
            self.done += rows
        if run.load.breakers:
            self.enough_errors = min(terms.errors for _, terms in run.load.breakers)
            self.errors_in_a_row = 0 if is_ok else self.errors_in_a_row + 1
            last = self.outcomes[-1] if self.outcomes else None
            is_same = last is not None and isinstance(last.outcome, Succeeded)
            if not (is_ok and is_same) or run.is_probe:
                self.outcomes.append(copy(run))

    @property
    def is_urgent(self) -> bool:
        """Whether a breaker must know it at once."""
        return any(
            run.is_probe or isinstance(run.outcome, Failed | Retried) for run in self.outcomes
        )

    @property
    def opens_breaker(self) -> bool:
        """Whether it has enough errors in a row to open the breaker."""
        return self.enough_errors is not None and self.errors_in_a_row >= self.enough_errors

    @property
    def is_empty(self) -> bool:
        counts = self.done, self.failed, self.retried, self.overloaded
        return not (any(counts) or self.outcomes)

    def successor(self) -> Tally:
        """An empty tally that continues to count errors in a row."""
        return Tally(errors_in_a_row=0 if self.opens_breaker else self.errors_in_a_row)


class RangeRunner:
    """Runs one claimed range. The sweeper's thread calls it; other threads only say what ended."""

    def __init__(
        self, found: Range, load: KindLoad, *, kind: Kind, clock: Clock, wake: Callable[[], None]
    ) -> None:
        assert found.batch is not None
        assert found.worker is not None
        self.range = found
        self.load = load
        self.kind = kind
        self.terms = terms_of(kind)
        self.batch = found.batch
        self.worker = found.worker
        self._wake = wake
        self._task = claimed(
            load.kind.name, found.id, batch=found.batch, worker=found.worker, now=clock.now()
        )
        self.end = found.end
        self.read_to = found.breakpoint
        self.breakpoint = found.breakpoint
        self.again_to = found.again_to
        self.is_careful = found.is_careful
        # As they were saved last: until that is up to date, nothing is reserved.
        self.stored_careful = found.is_careful
        self._stored_again_to = found.again_to
        self._is_exhausted = False
        self.is_reading = False
        self.is_lost = False
        # Why it cannot be saved; until it can be, nothing more is read.
        self.problem: Exception | None = None
        # Whether it was a straggler at the last check, and whether people were alerted.
        self.straggles = False
        self.has_alerted = False
        self.read_again_at = 0.0
        self._read_at = 0.0
        self._goal = 0
        self.done, self._failed, self._repeated = found.done, found.failed, found.repeated
        self._failures: list[tuple[ItemRun, str]] = []
        self.tally = Tally()
        self._clock = clock
        self.notes_all = False
        # Rows that were done since it is here.
        self._noted = found.done
        self._waiting = WaitingItems(clock)
        self._entries: deque[ReadRows] = deque()
        # The spans of pages that have not ended.
        self._pages: list[PageSpan] = []
        self._rows_waiting = 0
        # All runs from the first that has not ended on, in the order of their keys.
        self._window: deque[ItemRun] = deque()
        self._last_key: Key | None = decoded(found.breakpoint)
        self._has_moved = False
        self._page_ended = False
        self._saved_at = 0.0
        self._measured_at = time.monotonic()
        self._measured = self.done + self._failed
        self._is_measured = False
        self._per_second = 0.0

    @property
    def wants_rows(self) -> bool:
        """Whether it is time to reserve and read more."""
        if self.is_reading or self._is_exhausted or self.is_lost or self.problem is not None:
            return False
        if not self._is_stored or time.monotonic() < self.read_again_at:
            return False
        if self.is_careful:
            return not self._has_items and not self._has_moved
        return self._rows_waiting < self._fewest_waiting and len(self._window) < LONGEST_WINDOW

    @property
    def _is_stored(self) -> bool:
        stored = self.stored_careful, self._stored_again_to
        return stored == (self.is_careful, self.again_to)

    @property
    def _rows_wanted(self) -> int:
        """How many rows to reserve: a few seconds of work, so that others may have the rest."""
        if self.is_careful:
            return 1
        page = self.terms.batch
        if self.terms.many:
            pages = int(self._per_second * AHEAD_SECONDS / page)
            return page * min(MOST_PAGES, max(2, pages))
        fewest = max(min(page, max(FEWEST_ROWS, 2 * self.load.limit)), self._goal)
        return min(MOST_PAGES * page, max(fewest, int(self._per_second * AHEAD_SECONDS)))

    @property
    def _fewest_waiting(self) -> int:
        if self.terms.many:
            return 2 * self.terms.batch
        return max(self.load.limit, int(self._per_second * AHEAD_SECONDS / 4))

    def begin_reading(self) -> ReadRequest:
        """Ask for more rows; for twice as many if the last ones ran out very soon."""
        now = time.monotonic()
        is_fast = now - self._read_at < AHEAD_SECONDS / 8
        self._goal = 2 * self._rows_wanted if is_fast else 0
        self._read_at = now
        self.is_reading = True
        seen = self.range._replace(end=self.end, read_to=self.read_to, again_to=self.again_to)
        return ReadRequest(seen, self._rows_wanted, page_size=self.terms.batch)

    def receive(self, reading: Reading) -> None:
        """Take the rows that were reserved and read, or learn how the range has changed."""
        if reading.end != self.end:
            self.move_end(reading.end)
            return
        if reading.again_is_over:
            self.again_to, self.is_careful = None, False
            return
        self.read_to = reading.read_to
        self._is_exhausted = reading.is_exhausted
        for page in reading.pages:
            self._add_page(page)
        if reading.has_reserved and not self._has_items:
            # The rows were deleted between the question where they end and the reading.
            self.pass_all()

    def move_end(self, end: str | None) -> None:
        self.end, self._is_exhausted = end, False

    def _add_page(self, rows: Sequence[Row]) -> None:
        size = self.terms.batch if self.terms.many else 1
        is_again = self.again_to is not None
        page = self._span_of(len(rows), runs=-(-len(rows) // size))
        for begin in range(0, len(rows), size):
            is_last = begin + size >= len(rows)
            self._entries.append(ReadRows(rows[begin : begin + size], is_again, is_last, page))
        self._rows_waiting += len(rows)

    def _span_of(self, rows: int, *, runs: int) -> PageSpan | None:
        """The span of a new page, if it is traced."""
        observer = self.load.observer
        page = None if observer is None else observer.page(self._task, rows=rows, runs=runs)
        if page is not None:
            self._pages = [each for each in self._pages if not each.is_over]
            self._pages.append(page)
        return page

    def end_spans(self) -> None:
        """The range is no longer here: end the spans of its pages, although not all items ran."""
        for page in self._pages:
            page.end()

    def issue(self, most: int) -> list[ItemRun]:
        """Up to `most` runs that may begin now; those that waited come first."""
        runs = self._waiting.take(most)
        while self._entries and len(runs) < most:
            entry = self._entries.popleft()
            self._rows_waiting -= len(entry.rows)
            run = ItemRun(self._task, self.load, entry.rows, kind=self.kind, keeper=self)
            run.is_again, run.is_last, run.page = entry.is_again, entry.is_last, entry.page
            self._window.append(run)
            runs.append(run)
        return runs

    def landed(self, run: Run) -> None:
        assert isinstance(run, ItemRun)
        self.tally.note(run, len(run.rows))
        if isinstance(run.outcome, Retried | Snoozed):
            self._waiting.delay(run, run.outcome)
        elif isinstance(run.outcome, Succeeded) and (self.notes_all or self._noted < FIRST_NOTED):
            self._noted += len(run.rows)
            self.tally.note_done(run.rows, self._clock.now())
        if self.tally.opens_breaker:
            self.load.is_tripped = True
        if not self.load.queued or self.load.is_tripped or self.load.has_tripped:
            self._wake()

    def taken_back(self, run: Run) -> None:
        self._waiting.put_back(run)

    @property
    def only_waits(self) -> bool:
        """Whether everything that was read is done, except items that wait for their next try."""
        waiting = self._waiting
        if not waiting.delayed or waiting.has_due or waiting.ready:
            return False
        if self._entries or self.is_reading or self.wants_rows:
            return False
        return self._count_open() == len(waiting)

    def fail_delayed(self) -> None:
        """Keep the items that wait for their next try as failed items with the time of that try.

        For a worker that does not wait: otherwise everything that ran beyond them would run again.
        """
        for run, error, due_at in self._waiting.give_up_delayed():
            run.is_put_off = isinstance(run.outcome, Snoozed)
            run.task = replace(run.task, attempt=run.task.attempt - 1)
            run.outcome, run.state = Failed(error, error), State.ENDED
            run.retry_at = due_at

    @property
    def has_some(self) -> bool:
        """Whether something could begin."""
        return bool(self._entries or len(self._waiting) or self.is_reading)

    @property
    def _has_items(self) -> bool:
        """Whether items that were read are not passed yet."""
        return bool(self._window or self._entries)

    @property
    def is_finished(self) -> bool:
        """Whether everything was read and is done."""
        return self._is_exhausted and not self.is_reading and not self._has_items

    @property
    def is_still(self) -> bool:
        """Whether nothing of it runs or is queued; items may wait for their next try."""
        return not self.is_reading and self._count_open() == len(self._waiting)

    def _count_open(self) -> int:
        return sum(run.state is not State.ENDED for run in self._window)

    @property
    def again_to_if_released(self) -> str | None:
        """How far the next owner may run items that have already run here."""
        has_begun = any(run.state is not State.QUEUED for run in self._window)
        return self.read_to if self.again_to is None and has_begun else self.again_to

    def advance(self) -> None:
        """Pass everything that has ended, up to the first item that has not."""
        window = self._window
        while window and window[0].state is State.ENDED and isinstance(window[0].outcome, OVER):
            run = window.popleft()
            rows = len(run.rows)
            if isinstance(run.outcome, Failed):
                self._failed += 0 if run.is_put_off else rows
                self._failures.append((run, run.outcome.error))
            else:
                self.done += rows
            self._repeated += rows if run.is_again else 0
            self._last_key, self._has_moved = run.last, True
            self._page_ended = self._page_ended or run.is_last

    def pass_all(self) -> None:
        """Everything that was reserved is done: the breakpoint is the last reserved key."""
        self.breakpoint, self._last_key = self.read_to, decoded(self.read_to)
        self._has_moved = self.read_to is not None

    def wants_save(self, now: float) -> bool:
        """Whether it is time: every second, at the end of a page, or when a breaker must know."""
        since = now - self._saved_at
        if self.problem is not None:
            return since >= SAVE_EVERY
        if since >= SAVE_EVERY or not self._is_stored:
            return True
        if (self.is_careful and self._has_moved) or self.load.is_tripped:
            return True
        if self.load.has_tripped and self.tally.outcomes:
            return True
        return since >= SAVE_APART and (self._page_ended or self.tally.is_urgent)

    def save(self, numbers: Iterator[int]) -> Save:
        """Its state now, to be written; `numbers` are for its failed items."""
        if self._has_moved:
            self.breakpoint = encode_key(self._last_key)
        self._measure()
        return Save(
            id=self.range.id,
            batch=self.batch,
            breakpoint=self.breakpoint,
            done=self.done,
            failed=self._failed,
            repeated=self._repeated,
            per_second=self._per_second,
            again_to=self.again_to,
            is_careful=self.is_careful,
            failures=[
                FailedItem(
                    id=next(numbers),
                    item_key=encode_key(key),
                    error=error,
                    round=self.range.round,
                    tries=run.task.attempt,
                    retry_at=run.retry_at,
                )
                for run, error in self._failures
                for key, _ in run.rows
            ],
        )

    @property
    def failed_rows(self) -> int:
        """How many rows the next save adds to the failed items."""
        return sum(len(run.rows) for run, _ in self._failures)

    @property
    def first_error(self) -> BaseException | None:
        """What the first of the failed items raised that the next save adds."""
        return self._failures[0][0].error if self._failures else None

    def saved(self, what: Save) -> None:
        """What `save` returned was written."""
        self._failures = []
        self._saved_at = time.monotonic()
        self._has_moved = self._page_ended = False
        self.stored_careful, self._stored_again_to = what.is_careful, what.again_to

    def not_saved(self, problem: Exception) -> None:
        """It cannot be saved; that is tried again after a pause."""
        self.problem = problem
        self._saved_at = time.monotonic()

    def _measure(self) -> None:
        now, ended = time.monotonic(), self.done + self._failed
        elapsed = now - self._measured_at
        if elapsed < SAVE_EVERY / 2:
            return
        speed = max(0, ended - self._measured) / elapsed
        steady = STEADY if self._is_measured else 0.0
        self._per_second = steady * self._per_second + (1 - steady) * speed
        self._measured_at, self._measured, self._is_measured = now, ended, True

"""The retry of failed items of one sweep in one worker, beside its ranges."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

from windlass.core.run.load import KindLoad
from windlass.core.run.ready import Run
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.source.key_text import decode_key
from windlass.sweep.engine.calls import SourceCalls
from windlass.sweep.engine.item import ItemRun, WaitingItems, claimed
from windlass.sweep.engine.reader import find_row
from windlass.sweep.engine.tally import Tally
from windlass.sweep.engine.tools import Tools
from windlass.sweep.store import failed_item as store
from windlass.sweep.store.failed_item import FailedItem
from windlass.value.outcome import Failed, Retried, Snoozed

AT_ONCE = 200


@dataclass
class ClaimedItems:
    """Failed items that were claimed together, and how those that have ended did."""

    batch: int
    worker: int
    items: list[FailedItem]
    runs: list[ItemRun] = field(default_factory=list)
    # The ids of items that succeeded, or whose row no longer exists.
    succeeded: list[int] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return len(self.succeeded) + len(self.failed) == len(self.items)


class RetryRunner:
    """Claims failed items in groups, runs them, and saves how they ended."""

    def __init__(self, load: KindLoad, tools: Tools, calls: SourceCalls) -> None:
        self._kind: Kind = load.kind
        self._load = load
        self._tools = tools
        self._calls = calls
        # Whether failed items wait to be retried.
        self.is_due = False
        self._claiming: Future[ClaimedItems] | None = None
        self._claimed: ClaimedItems | None = None
        # The batch of the items that are claimed, or are being claimed.
        self.batch: int | None = None
        self._waiting = WaitingItems(tools.clock)
        self.tally = Tally()

    @property
    def is_busy(self) -> bool:
        """Whether it has claimed items, or is about to."""
        return self._claiming is not None or self._claimed is not None

    @property
    def has_some(self) -> bool:
        return bool(len(self._waiting))

    def step(self, worker: int) -> None:
        """Claim items if some are due, and save those that have all ended."""
        if self._claiming is not None and self._claiming.done():
            future, self._claiming = self._claiming, None
            found = future.result()
            if found.worker == worker:
                self.is_due = False
                self._claimed = found if found.items else None
                for run in found.runs:
                    self._waiting.add(run)
        is_active = self._load.running or self._load.queued or self._waiting.has_ready
        if self._tools.once and not is_active:
            self._fail_delayed()
        if self._claimed is not None and self._claimed.is_over:
            self._settle(self._claimed)
        if self.is_due and not self.is_busy and self._load.is_open:
            self.batch = batch = self._tools.numbers.take()[0]
            self._claiming = self._calls.submit(self._claim, batch, worker)

    def issue(self, most: int) -> list[ItemRun]:
        return self._waiting.take(most)

    def landed(self, run: Run) -> None:
        assert isinstance(run, ItemRun)
        outcome, found = run.outcome, self._claimed
        self.tally.note(run, 1)
        if isinstance(outcome, Retried | Snoozed):
            self._waiting.delay(run, outcome)
        elif found is not None and found.batch == run.task.batch:
            if isinstance(outcome, Failed):
                found.failed[run.task.id] = outcome.error
            else:
                found.succeeded.append(run.task.id)
            self._tools.wake()

    def taken_back(self, run: Run) -> None:
        self._waiting.put_back(run)

    def drop(self) -> None:
        """The worker was marked left: forget the items, which others may claim."""
        self._claimed = None
        self._waiting = WaitingItems(self._tools.clock)

    def _fail_delayed(self) -> None:
        """A worker that ends when nothing is due does not wait for later tries."""
        if self._claimed is None or self._waiting.has_due:
            return
        for run, error, _ in self._waiting.give_up_delayed():
            self._claimed.failed[run.task.id] = error

    def _claim(self, batch: int, worker: int) -> ClaimedItems:
        name, now = self._kind.name, self._tools.clock.now()
        items: list[FailedItem] = self._tools.database.write_as(
            worker,
            lambda connection: store.claim(
                connection, name, batch=batch, worker=worker, now=now, limit=AT_ONCE
            ),
            lost=[],
        )
        found = ClaimedItems(batch, worker, items)
        for each in found.items:
            key = decode_key(each.key)
            try:
                row = find_row(self._kind, self._calls.source, key)
            except Exception as problem:
                found.failed[each.id] = f"the row could not be read: {problem}"[:1_000]
                continue
            if row is None:
                found.succeeded.append(each.id)
                continue
            task = claimed(name, each.id, batch=batch, worker=worker, now=now)
            found.runs.append(ItemRun(task, self._load, [(key, row[1])], keeper=self))
        return found

    def _settle(self, found: ClaimedItems) -> None:
        now = self._tools.clock.now()

        def work(connection: Connection) -> None:
            store.settle(
                connection,
                batch=found.batch,
                succeeded=found.succeeded,
                failed=found.failed,
                now=now,
            )

        self._tools.database.write_as(found.worker, work, lost=None)
        self._claimed = None
        # There may be more than one group.
        self.is_due = len(found.items) == AT_ONCE

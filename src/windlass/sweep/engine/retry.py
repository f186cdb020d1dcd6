"""The retry of failed items of one sweep in one worker, beside its ranges."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from windlass.core.run.load import KindLoad
from windlass.core.run.ready import Run
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.sweep.engine.calls import SourceCalls
from windlass.sweep.engine.item import ItemRun, WaitingItems, claimed
from windlass.sweep.engine.reader import find_row
from windlass.sweep.engine.tally import Tally
from windlass.sweep.engine.tools import Tools
from windlass.sweep.store import failed_item as store
from windlass.sweep.store.failed_item import FailedItem
from windlass.value.key import Key, decode_key
from windlass.value.outcome import Failed, Retried, Snoozed

AT_ONCE = 200


class ClaimedItems:
    """Failed items that were claimed together, with the rows that were found for them."""

    def __init__(self, batch: int, worker: int, items: list[FailedItem]) -> None:
        self.batch = batch
        self.worker = worker
        self.items = items
        self.rows: list[tuple[FailedItem, Key, Any]] = []
        # The ids of items that succeeded, or whose row no longer exists.
        self.succeeded: list[int] = []
        self.failed: dict[int, str] = {}


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
        # By the number of a run, the id of its item.
        self._ids: dict[int, int] = {}
        self._open = 0
        self.tally = Tally()

    @property
    def is_busy(self) -> bool:
        """Whether it has claimed items, or is about to."""
        return self._claiming is not None or self._claimed is not None

    @property
    def has_some(self) -> bool:
        """Whether something could begin."""
        return bool(len(self._waiting))

    def step(self, worker: int) -> None:
        """Claim items if some are due, and save those that have all ended."""
        if self._claiming is not None and self._claiming.done():
            future, self._claiming = self._claiming, None
            found = future.result()
            if found.worker == worker:
                self._begin(found)
        is_active = self._load.running or self._load.queued or self._waiting.has_ready
        if self._tools.once and not is_active:
            self._fail_delayed()
        if self._claimed is not None and not self._open:
            self._settle(self._claimed)
        if self.is_due and not self.is_busy and self._load.is_open:
            self.batch = batch = self._tools.numbers.take()[0]
            self._claiming = self._calls.submit(self._claim, batch, worker)

    def issue(self, most: int) -> list[ItemRun]:
        """Up to `most` runs that may begin now."""
        return self._waiting.take(most)

    def landed(self, run: Run) -> None:
        """A run has ended; called under the lock of the rows in flight."""
        assert isinstance(run, ItemRun)
        outcome = run.outcome
        self.tally.note(run, 1)
        if isinstance(outcome, Retried | Snoozed):
            self._waiting.delay(run, outcome)
            return
        found, number = self._claimed, self._ids.pop(run.number, None)
        if found is None or number is None:
            return
        if isinstance(outcome, Failed):
            found.failed[number] = outcome.error
        else:
            found.succeeded.append(number)
        self._open -= 1
        self._tools.wake()

    def taken_back(self, run: Run) -> None:
        """A queued run may not begin now."""
        self._waiting.put_back(run)

    def drop(self) -> None:
        """The worker was marked left: forget the items, which others may claim."""
        self._claimed = None
        self._ids, self._open = {}, 0
        self._waiting = WaitingItems(self._tools.clock)

    def _fail_delayed(self) -> None:
        """A worker that ends when nothing is due does not wait for later tries."""
        if self._claimed is None or self._waiting.has_due:
            return
        for run, error, _ in self._waiting.give_up_delayed():
            self._claimed.failed[self._ids.pop(run.number)] = error
            self._open -= 1

    def _claim(self, batch: int, worker: int) -> ClaimedItems:
        tools = self._tools

        def work(connection: Connection) -> list[FailedItem]:
            return store.claim(
                connection,
                self._kind.name,
                batch=batch,
                worker=worker,
                now=tools.clock.now(),
                limit=AT_ONCE,
            )

        found = ClaimedItems(batch, worker, tools.database.write_as(worker, work, lost=[]))
        for each in found.items:
            key = decode_key(each.key)
            try:
                row = find_row(self._kind, self._calls.source, key)
            except Exception as problem:
                found.failed[each.id] = f"the row could not be read: {problem}"[:1_000]
                continue
            if row is not None:
                found.rows.append((each, key, row[1]))
            else:
                found.succeeded.append(each.id)
        return found

    def _begin(self, found: ClaimedItems) -> None:
        self.is_due = False
        if not found.items:
            return
        self._claimed = found
        self._open = len(found.rows)
        now = self._tools.clock.now()
        for each, key, row in found.rows:
            task = claimed(
                self._kind.name, each.id, batch=found.batch, worker=found.worker, now=now
            )
            run = ItemRun(task, self._load, self, [(key, row)])
            self._ids[run.number] = each.id
            self._waiting.add(run)

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

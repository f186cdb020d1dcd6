"""The retry of failed items of one sweep in one worker, beside its ranges."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from windlass.core.face import Workplace
from windlass.core.run.ready import KindLoad, Run
from windlass.database.connection import Connection
from windlass.source.contract import decode_key
from windlass.sweep.engine.range_runner import ItemRun, Tally, WaitingItems, claimed
from windlass.sweep.engine.reader import SourceCalls, find_row
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
    # Those that were put off, and when they are tried again.
    put_off: dict[int, int] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return len(self.succeeded) + len(self.failed) + len(self.put_off) == len(self.items)


@dataclass(eq=False)
class RetryRunner:
    """Claims failed items in groups, runs them, and saves how they ended."""

    load: KindLoad
    workplace: Workplace
    calls: SourceCalls
    wake: Callable[[], None]
    # Whether failed items wait to be retried.
    is_due: bool = True
    claiming: Future[ClaimedItems] | None = None
    group: ClaimedItems | None = None
    # The batch of the items that are claimed, or are being claimed.
    batch: int | None = None
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self.waiting = WaitingItems(self.workplace.site.clock)

    @property
    def is_busy(self) -> bool:
        """Whether it has claimed items, or is about to."""
        return self.claiming is not None or self.group is not None

    @property
    def has_some(self) -> bool:
        return bool(len(self.waiting))

    def step(self, worker: int) -> None:
        """Claim items if some are due, and save those that have all ended."""
        if self.claiming is not None and self.claiming.done():
            future, self.claiming = self.claiming, None
            found = future.result()
            if found.worker == worker:
                self.is_due = False
                self.group = found if found.items else None
                self.waiting.ready.extend(found.runs)
        is_active = self.load.running or self.load.queued or self.waiting.ready
        if self.workplace.until_idle and not is_active:
            self._fail_delayed()
        if self.group is not None and self.group.is_over:
            self._settle(self.group)
        if self.is_due and not self.is_busy and self.load.is_open:
            self.batch = batch = self.workplace.site.numbers.take()[0]
            self.claiming = self.calls.submit(self._claim, batch, worker)

    def issue(self, most: int) -> list[ItemRun]:
        return self.waiting.take(most)

    def landed(self, run: Run) -> None:
        assert isinstance(run, ItemRun)
        outcome, found = run.outcome, self.group
        self.tally.note(run, 1)
        if isinstance(outcome, Retried | Snoozed):
            self.waiting.delay(run, outcome)
        elif found is not None and found.batch == run.task.batch:
            if isinstance(outcome, Failed):
                found.failed[run.task.id] = outcome.error
            else:
                found.succeeded.append(run.task.id)
            self.wake()

    def taken_back(self, run: Run) -> None:
        self.waiting.put_back(run)

    def drop(self) -> None:
        """The worker was marked left: forget the items, which others may claim."""
        self.group = None
        self.waiting = WaitingItems(self.workplace.site.clock)

    def _fail_delayed(self) -> None:
        """A worker that ends when nothing is due does not wait for later tries."""
        if self.group is None or self.waiting.has_due:
            return
        for run, error, due_at in self.waiting.give_up_delayed():
            if isinstance(run.outcome, Snoozed):
                self.group.put_off[run.task.id] = due_at
            else:
                self.group.failed[run.task.id] = error

    def _claim(self, batch: int, worker: int) -> ClaimedItems:
        kind, site = self.load.kind, self.workplace.site
        name, now = kind.name, site.clock.now()
        items: list[FailedItem] = site.database.write_as(
            worker,
            lambda connection: store.claim(
                connection, name, batch=batch, worker=worker, now=now, limit=AT_ONCE
            ),
            lost=[],
        )
        found = ClaimedItems(batch, worker, items)
        for each in found.items:
            key = decode_key(each.item_key)
            try:
                row = find_row(kind, self.calls.source, key)
            except BaseException as problem:
                error = str(problem) or type(problem).__name__
                found.failed[each.id] = f"the row could not be read: {error}"[:1_000]
                continue
            if row is None:
                found.succeeded.append(each.id)
                continue
            task = claimed(name, each.id, batch=batch, worker=worker, now=now)
            found.runs.append(ItemRun(task, self.load, [(key, row[1])], keeper=self))
        return found

    def _settle(self, found: ClaimedItems) -> None:
        site, batch = self.workplace.site, found.batch
        succeeded, failed, now = found.succeeded, found.failed, site.clock.now()

        def work(connection: Connection) -> None:
            store.settle(connection, batch=batch, succeeded=succeeded, failed=failed, now=now)
            store.put_off(connection, batch=batch, until=found.put_off)

        site.database.write_as(found.worker, work, lost=None)
        self.group = None
        # There may be more than one group.
        self.is_due = len(found.items) == AT_ONCE

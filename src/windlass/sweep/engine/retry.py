"""The retry of failed items of one sweep in one worker, beside its ranges."""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.core.run.ready import Run
from windlass.database.connection import Connection
from windlass.source.contract import decode_key
from windlass.sweep.engine.group import GroupRunner
from windlass.sweep.engine.range_runner import ItemRun, claimed
from windlass.sweep.engine.reader import find_row
from windlass.sweep.model import name_of_rows
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


class RetryRunner(GroupRunner[ClaimedItems]):
    """Claims failed items in groups, runs them, and saves how they ended."""

    def _begin(self, found: ClaimedItems) -> None:
        self.is_due, self.group = False, found if found.items else None

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

    def _give_up_delayed(self, found: ClaimedItems) -> None:
        for run, error, due_at in self.waiting.give_up_delayed():
            if isinstance(run.outcome, Snoozed):
                found.put_off[run.task.id] = due_at
            else:
                found.failed[run.task.id] = error

    def _claim(self, batch: int, worker: int) -> ClaimedItems:
        kind, site = self.kind, self.workplace.site
        name, now = name_of_rows(kind), site.clock.now()
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
            task = claimed(kind.name, each.id, batch=batch, worker=worker, now=now)
            run = ItemRun(task, self.load, [(key, row[1])], kind=kind, keeper=self)
            found.runs.append(run)
        return found

    def _settle(self, found: ClaimedItems) -> None:
        if not found.is_over:
            return
        site, batch = self.workplace.site, found.batch
        succeeded, failed, now = found.succeeded, found.failed, site.clock.now()

        def work(connection: Connection) -> None:
            store.settle(connection, batch=batch, succeeded=succeeded, failed=failed, now=now)
            store.put_off(connection, batch=batch, until=found.put_off)

        site.database.write_as(found.worker, work, lost=None)
        self.group = None
        # There may be more than one group.
        self.is_due = len(found.items) == AT_ONCE

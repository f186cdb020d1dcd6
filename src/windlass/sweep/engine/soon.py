"""Visits that were asked for without waiting: a worker runs them beside its ranges."""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.core.run.ready import Run
from windlass.database.connection import Connection
from windlass.database.dialect.base import Dialect
from windlass.source.contract import decode_key, encode_key
from windlass.sweep.engine.group import GroupRunner
from windlass.sweep.engine.range_runner import NUMBERS, ItemRun, claimed
from windlass.sweep.engine.reader import find_row
from windlass.sweep.store import failed_item
from windlass.sweep.store import request as store
from windlass.sweep.store import sweep as sweep_store
from windlass.sweep.store.failed_item import FailedItem, Visited
from windlass.sweep.store.request import VisitRequest
from windlass.value.outcome import Failed, Retried, Snoozed
from windlass.value.period import is_fresh
from windlass.value.status import Status

AT_ONCE = 100


def record_visit(
    connection: Connection, dialect: Dialect, sweep: str, key: str, what: Visited, *, number: int
) -> None:
    """Record a visit: a failed item is listed under `number`, one that succeeded is no more."""
    failed_item.note_visit(connection, dialect, sweep, key=key, what=what)
    if what.error is None:
        failed_item.forget(connection, sweep, key)
    else:
        row = sweep_store.get(connection, sweep)
        failed = FailedItem(number, key, what.error, row.round if row else 0, 1)
        failed_item.add(connection, sweep, [failed], now=what.visited_at)


@dataclass
class EndedVisit:
    """A visit that has ended; without a result, there was nothing to visit."""

    asked: VisitRequest
    # The key as the source has it, encoded.
    own: str
    what: Visited | None = None


@dataclass(eq=False)
class ClaimedVisits:
    """Visits that were claimed together: those that run, and those that have ended."""

    batch: int
    worker: int
    requests: dict[int, tuple[VisitRequest, str]] = field(default_factory=dict)
    runs: list[ItemRun] = field(default_factory=list)
    ended: list[EndedVisit] = field(default_factory=list)
    # Those that were put off, by the hashes of their keys, and until when.
    put_off: dict[str, int] = field(default_factory=dict)
    is_full: bool = False

    def take_ended(self) -> list[EndedVisit]:
        """Those that have ended since the last time."""
        ended, self.ended = self.ended, []
        return ended


class SoonRunner(GroupRunner[ClaimedVisits]):
    """Claims visits that were asked for, runs them, and records how they ended."""

    def _begin(self, found: ClaimedVisits) -> None:
        self.is_due, self.group = found.is_full, found

    def landed(self, run: Run) -> None:
        assert isinstance(run, ItemRun)
        outcome, found = run.outcome, self.group
        self.tally.note(run, 1)
        if isinstance(outcome, Retried | Snoozed):
            self.waiting.delay(run, outcome)
        elif found is not None and found.batch == run.task.batch:
            asked, own = found.requests[run.number]
            error = outcome.error if isinstance(outcome, Failed) else None
            status = Status.SUCCEEDED if error is None else Status.FAILED
            at = self.workplace.site.clock.now()
            found.ended.append(EndedVisit(asked, own, Visited(at, status, error)))
            self.wake()

    def _give_up_delayed(self, found: ClaimedVisits) -> None:
        for run, _error, due_at in self.waiting.give_up_delayed():
            found.put_off[found.requests[run.number][0].key_hash] = due_at

    def _claim(self, batch: int, worker: int) -> ClaimedVisits:
        site, name = self.workplace.site, self.kind.name
        now = site.clock.now()

        def work(connection: Connection) -> tuple[list[VisitRequest], dict[str, int]]:
            asked = store.claim(
                connection, name, batch=batch, worker=worker, now=now, limit=AT_ONCE
            )
            return asked, store.last_done(connection, name, asked) if asked else {}

        nothing: tuple[list[VisitRequest], dict[str, int]] = ([], {})
        asked, last = site.database.write_as(worker, work, lost=nothing)
        found = ClaimedVisits(batch, worker, is_full=len(asked) == AT_ONCE)
        for each in asked:
            done_at = last.get(each.key_hash)
            if each.fresh is not None and is_fresh(done_at, each.fresh, now):
                # A round or a caller was faster.
                found.ended.append(EndedVisit(each, each.item_key))
            else:
                self._prepare(each, found, now)
        return found

    def _prepare(self, asked: VisitRequest, found: ClaimedVisits, now: int) -> None:
        kind = self.kind
        try:
            row = find_row(kind, self.calls.source, decode_key(asked.item_key))
        except BaseException as problem:
            error = f"the row could not be read: {str(problem) or type(problem).__name__}"[:1_000]
            failed = Visited(now, Status.FAILED, error)
            found.ended.append(EndedVisit(asked, asked.item_key, failed))
            return
        if row is None:
            found.ended.append(EndedVisit(asked, asked.item_key))
            return
        task = claimed(kind.name, next(NUMBERS), batch=found.batch, worker=found.worker, now=now)
        run = ItemRun(task, self.load, [row], kind=kind, keeper=self)
        found.requests[run.number] = asked, encode_key(row[0])
        found.runs.append(run)

    def _settle(self, found: ClaimedVisits) -> None:
        """Record the visits that have ended; the group is over with the last of them."""
        # Others end meanwhile, under the lock of the rows in flight.
        ended = self.workplace.in_flight.undisturbed(found.take_ended)
        put_off, found.put_off = found.put_off, {}
        if ended or put_off:
            self._write(found, ended, put_off)
            mine = {each.asked.key_hash for each in ended} | put_off.keys()
            for number, (asked, _own) in list(found.requests.items()):
                if asked.key_hash in mine:
                    del found.requests[number]
        if not found.requests:
            self.group = None

    def _write(
        self, found: ClaimedVisits, ended: list[EndedVisit], put_off: dict[str, int]
    ) -> None:
        site, name = self.workplace.site, self.kind.name
        dialect = site.database.dialect
        numbers = site.numbers.take(max(1, len(ended)))

        def work(connection: Connection) -> None:
            for number, each in zip(numbers, ended, strict=False):
                if each.what is not None:
                    record_visit(connection, dialect, name, each.own, each.what, number=number)
                if each.what is not None and each.own != each.asked.item_key:
                    # Who asks by that text again finds that it is fresh.
                    alias = each.asked.item_key
                    failed_item.note_visit(connection, dialect, name, key=alias, what=each.what)
            keys = [each.asked.item_key for each in ended]
            store.end(connection, name, keys, batch=found.batch)
            store.put_off(connection, name, batch=found.batch, until=put_off)

        site.database.write_as(found.worker, work, lost=None)

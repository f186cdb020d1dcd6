"""Brings records into the book, and is the kind of task that does: every worker runs it.

A batch is brought in by the transaction that deletes it. So it happens once, whoever tries, and
however often: the stock that the batch sold comes back from the cache's part, and the deductions of
the batch take it at once, under their own ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from windlass.clock import Clock
from windlass.core.task.kind import Kind, make_kind
from windlass.core.task.option import Options
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.errors import DatabaseUnavailable
from windlass.ledger.engine import tally
from windlass.ledger.engine.execute import RequestExecutor
from windlass.ledger.model.book import Book
from windlass.ledger.model.hot import MOVED, SYNC, Record, request_of
from windlass.ledger.model.ledger import (
    Adjust,
    Conflict,
    Deduction,
    Outcome,
    Refusal,
    Request,
    Undo,
    decode_refusal,
)
from windlass.ledger.store.hot import TABLES, BatchRow, HotRows
from windlass.ledger.store.ledger import GuardFailed

Databases = Callable[[], Iterable[tuple[Database, Clock]]]
# A transaction has so many batches, each of up to 500 records.
TOGETHER = 8
REASON = "sold by a hot lane"


class Syncer:
    """Brings batches into the book of one database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._book = RequestExecutor(database, clock)
        self._rows = HotRows(database.dialect)

    def sync(self, batches: Sequence[str]) -> int:
        """Bring these batches into the book; how many were not there yet."""
        done = 0
        for begin in range(0, len(batches), TOGETHER):
            part = sorted(batches[begin : begin + TOGETHER])
            made, book = self._database.write(partial(self._bring, ids=part))
            if book is not None:
                tally.count(book)
            done += made
        return done

    def sync_all(self, lane: str | None = None) -> int:
        """Bring everything that is not in the book into it."""
        done = 0
        while found := self._database.read(lambda it: self._rows.batches(it, lane)):
            done += self.sync([each.id for each in found])
        return done

    def _bring(self, connection: Connection, *, ids: Sequence[str]) -> tuple[int, Book | None]:
        locked = [self._rows.lock_batch(connection, each) for each in ids]
        batches = [each for each in locked if each is not None]
        if not batches:
            return 0, None
        records = [
            (record, batch.created_at)
            for batch in batches
            for record in self._rows.records_of(connection, batch.id)
        ]
        moved = _moved(batches)
        requests: list[Request] = [_request(record) for record, _ in records]
        if moved is not None:
            requests.append(moved)
        now = self._clock.now()

        def decide(book: Book) -> dict[str, str]:
            if moved is not None and isinstance(book.apply(moved, now), Refusal | Conflict):
                raise GuardFailed(f"the book does not take back what {moved.id} sold")
            found = ((record.id, _bring(book, record, at)) for record, at in records)
            return {id_: why for id_, why in found if why}

        problems, book = self._book.within(connection, requests, decide, now=now)
        for batch in batches:
            self._rows.add_synced(connection, batch.lane, batch.sums)
            self._rows.forget(connection, batch.id, problems=problems)
        return len(batches), book


def sync_kind(databases: Databases) -> Kind:
    """The kind of the tasks that bring records into the book, whichever database has them."""

    def sync(batch: str) -> None:
        problem: DatabaseUnavailable | None = None
        for database, clock in databases():
            try:
                if database.schema.has(TABLES):
                    Syncer(database, clock).sync([batch])
            except DatabaseUnavailable as found:
                problem = found
        if problem is not None:
            raise problem

    options = Options(name=SYNC, retries=1_000, backoff="10s", concurrency=1)
    return make_kind(sync, options)


def _moved(batches: Iterable[BatchRow]) -> Adjust | None:
    """What the batches sold, back from the part of the cache."""
    sums: dict[str, int] = {}
    first = ""
    for batch in batches:
        first = first or batch.id
        for sku, quantity in batch.sums.items():
            sums[sku] = sums.get(sku, 0) + quantity
    if not sums:
        return None
    return Adjust(f"{MOVED}sync:{first}", {sku: sums[sku] for sku in sorted(sums)}, REASON)


def _request(record: Record) -> Request:
    return Undo.void(record.id) if record.body is None else request_of(record)


def _bring(book: Book, record: Record, at: int) -> str | None:
    """Apply a record; why the book does not take it, if it does not."""
    request = _request(record)
    if isinstance(request, Undo):
        book.apply(request, at)
        return None
    assert not isinstance(request, Adjust)
    known = book.deductions.get(record.id)
    if known is not None and known.body is None:
        # It was voided in the book meanwhile: nothing is taken, and the stock is back.
        return None
    if record.refusal is not None:
        outcome = book.refuse(request_of(record), decode_refusal(record.refusal), at)
        return None if isinstance(outcome, Refusal) else _said(outcome)
    outcome = book.apply(request, at)
    return None if isinstance(outcome, Deduction) else _said(outcome)


def _said(outcome: Outcome) -> str:
    match outcome:
        case Conflict():
            return f"the book has another deduction under this id: {outcome.difference}"
        case Refusal():
            return f"the book refused a deduction under this id: {outcome.error}"
    return "the book made a deduction under this id, but the hot lane refused one"

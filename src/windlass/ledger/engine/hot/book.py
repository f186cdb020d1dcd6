"""The book's side of a hot lane: epochs, allotments, and the records of what was decided.

The book is the truth. Stock that a cache may sell has left the book by an adjustment, and a row
says how much of it is sold for certain. What is recorded is checked against that row in the same
transaction, and against its epoch: a cache that is wrong cannot sell more than it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from windlass.clock import Clock
from windlass.database.connection import Connection
from windlass.database.database import Database, Numbers
from windlass.errors import BadInput, CacheUnavailable, UnknownSku
from windlass.ledger.cache.client import HotCache
from windlass.ledger.engine import tally
from windlass.ledger.engine.execute import RequestExecutor, answer_of
from windlass.ledger.model.book import Book
from windlass.ledger.model.hot import (
    MOST_ALLOTTED,
    MOVED,
    SYNC,
    Allotment,
    Epoch,
    Record,
    new_name,
    sums_of,
)
from windlass.ledger.model.ledger import Adjust, Deduct, Outcome, Receipt, Request
from windlass.ledger.store.hot import (
    TABLES,
    BatchRow,
    HotLaneRow,
    HotRows,
    RecordKey,
    Used,
)
from windlass.value.bucket import bucket_of
from windlass.value.task import NewTask

T = TypeVar("T")

TRIES = 20


class HotBook:
    """One lane in its database."""

    def __init__(self, database: Database, clock: Clock, *, lane: str, cache: HotCache) -> None:
        self._database = database
        self._clock = clock
        self.lane = lane
        self._cache = cache
        self._book = RequestExecutor(database, clock)
        self._numbers = Numbers(database)
        self.rows = HotRows(database.dialect)

    def epoch(self) -> Epoch:
        """The present epoch. The first call makes the lane."""
        self._database.schema.need(TABLES, "a hot lane")
        found = self._database.read(self._read_epoch)
        if found is None:
            try:
                self._database.write(self._add_lane)
            except Exception as problem:
                if not self._database.dialect.is_duplicate(problem):
                    raise
            found = self._database.read(self._read_epoch)
        assert found is not None
        return found

    def renew(self, before: str) -> None:
        """Begin a new epoch, unless the epoch `before` is over already.

        Everything that is recorded is kept; what was only decided is forgotten.
        """

        def work(connection: Connection) -> None:
            lane = self._locked(connection)
            if lane.token == before:
                new = self._begin(connection, lane)
                allotments = self.rows.allotments(connection, self.lane)
                self._cache.open(new.token, before, _open(allotments))

        self._database.write(work)

    def allot(self, wanted: Mapping[str, int], *, partly: bool) -> dict[str, int]:
        """Move stock from the book to the cache; how much was moved of each SKU.

        `partly` moves what there is, if it is less. The cache must still be told.
        """

        def work(connection: Connection) -> tuple[dict[str, int], Book | None]:
            lane = self._locked(connection)
            known = self.rows.allotments(connection, self.lane, locked=True)
            request = self._adjustment("allot", {sku: -number for sku, number in wanted.items()})
            now = self._clock.now()
            moved, book = self._book.within(
                *(connection, [request]),
                lambda it: _take(it, request, partly=partly, now=now),
                now=now,
            )
            for sku, quantity in moved.items():
                before = known[sku].quantity if sku in known else 0
                if before + quantity > MOST_ALLOTTED:
                    raise BadInput(f"sku {sku!r}: at most {MOST_ALLOTTED:,} fit into a lane")
                self.rows.add_allotment(connection, lane, sku, quantity=quantity, is_open=True)
            return moved, book

        return self._write(work)

    def recall(self, skus: Collection[str] | None) -> dict[str, int]:
        """Move what is not sold back to the book, which sells these SKUs from then on."""

        def work(connection: Connection) -> tuple[dict[str, int], Book | None]:
            lane = self._locked(connection)
            new = self._begin(connection, lane)
            known = self.rows.allotments(connection, self.lane)
            for sku in skus or ():
                if sku not in known:
                    raise UnknownSku(sku)
            chosen = {sku: known[sku] for sku in (known if skus is None else sorted(skus))}
            for sku, each in chosen.items():
                self.rows.add_allotment(connection, new, sku, quantity=-each.left, is_open=False)
            back = {sku: each.left for sku, each in chosen.items() if each.left}
            book = None
            if back:
                request = self._adjustment("recall", back)
                now = self._clock.now()
                _, book = self._book.within(
                    connection, [request], lambda it: _apply(it, request, now), now=now
                )
            rest = {sku: each for sku, each in known.items() if sku not in chosen}
            # A cache that does not answer does not have this epoch: the next call begins another.
            with suppress(CacheUnavailable):
                self._cache.open(new.token, lane.token, _open(rest))
            return back, book

        return self._write(work)

    def record(self, epoch: Epoch, records: Sequence[Record], *, now: int) -> str:
        """Write down decisions, all or none, as a batch; returns its name.

        Raises Used if an id is used already, and Closed if the epoch is over.
        """
        lane = HotLaneRow(self.lane, epoch.number, epoch.token, "")

        def work(connection: Connection) -> str:
            batch = BatchRow(new_name(), self.lane, sums_of(records), now)
            self.rows.record(connection, lane, records, batch=batch)
            self._database.dialect.insert(connection, [self._task(connection, batch)])
            return batch.id

        try:
            return self._database.write(work)
        except Exception as problem:
            if self._database.dialect.is_duplicate(problem):
                raise Used(f"lane {self.lane!r}: an id was used before") from problem
            raise

    def record_new(
        self, epoch: Epoch, records: Sequence[Record], *, now: int
    ) -> tuple[dict[str, RecordKey], set[str]]:
        """Write down those decisions whose ids are new; the others: recorded, and in the book."""
        for _ in range(TRIES):
            found, booked = self.known([each.id for each in records])
            rest = [each for each in records if each.id not in found and each.id not in booked]
            try:
                if rest:
                    self.record(epoch, rest, now=now)
                return found, booked
            except Used:
                continue
        raise Used(f"lane {self.lane!r}: ids are used again and again")

    def void(self, id_: str) -> tuple[str | None, bool]:
        """Let nothing be recorded under this id any more.

        Returns the batch that must be synced first, and whether that voids the id.
        """
        nothing = Record(id_, "", None)
        for _ in range(TRIES):
            found, booked = self.known([id_])
            if id_ in found:
                return found[id_].batch or None, False
            if id_ in booked:
                return None, False
            try:
                return self.record(self.epoch(), [nothing], now=self._clock.now()), True
            except Used:
                continue
        raise Used(f"lane {self.lane!r}: id {id_!r} is used again and again")

    def known(self, ids: Collection[str]) -> tuple[dict[str, RecordKey], set[str]]:
        """Those of these ids that are recorded, and those that the book has."""
        # In this order: what is synced in between is in the book.
        found = self._database.read(lambda it: self.rows.found(it, ids))
        return found, self._database.read(lambda it: self.rows.in_book(it, ids))

    def deduct_both(self, epoch: Epoch, request: Deduct) -> tuple[Outcome, bool]:
        """Deduct what the cache gave and what the book has, in one transaction.

        Returns the answer, and whether that took what the cache had set apart.
        """
        hot = epoch.cache_lines(request.lines)

        def work(connection: Connection) -> tuple[tuple[Outcome, bool], Book | None]:
            self.rows.hold_skus(connection, self.lane, epoch.number, hot)
            now = self._clock.now()
            moved = self._adjustment("order", hot)
            requests: list[Request] = [moved, request]

            def decide(book: Book) -> tuple[Outcome, bool]:
                if request.id in book.deductions:
                    return book.apply(request, now), False
                refusal = book.why_not(request, coming=hot)
                if refusal is not None:
                    return book.refuse(request, refusal, now), False
                _apply(book, moved, now)
                return book.apply(request, now), True

            made, book = self._book.within(connection, requests, decide, now=now)
            if made[1]:
                self.rows.sell(connection, self.lane, epoch.number, hot)
                self.rows.add_synced(connection, self.lane, hot)
            return made, book

        return self._write(work)

    def _write(self, work: Callable[[Connection], tuple[T, Book | None]]) -> T:
        answer, book = self._database.write(work)
        if book is not None:
            tally.count(book)
        return answer

    def _read_epoch(self, connection: Connection) -> Epoch | None:
        lane = self.rows.lane(connection, self.lane)
        if lane is None:
            return None
        return Epoch(lane.epoch, lane.token, self.rows.allotments(connection, self.lane))

    def _add_lane(self, connection: Connection) -> None:
        lane = HotLaneRow(self.lane, 0, new_name(), self._cache.address)
        self.rows.add_lane(connection, lane, now=self._clock.now())

    def _locked(self, connection: Connection) -> HotLaneRow:
        lane = self.rows.lane(connection, self.lane, locked=True)
        assert lane is not None
        return lane

    def _begin(self, connection: Connection, lane: HotLaneRow) -> HotLaneRow:
        new = HotLaneRow(lane.name, lane.epoch + 1, new_name(), self._cache.address)
        self.rows.begin_epoch(connection, new, now=self._clock.now())
        return new

    def _adjustment(self, what: str, lines: Mapping[str, int]) -> Adjust:
        ordered = {sku: lines[sku] for sku in sorted(lines)}
        return Adjust(f"{MOVED}{what}:{new_name()}", ordered, f"hot lane {self.lane}")

    def _task(self, connection: Connection, batch: BatchRow) -> NewTask:
        number = self._numbers.take(1, inside=connection)[0]
        return NewTask(
            id=number,
            kind=SYNC,
            task_key=None,
            bucket=bucket_of(str(number)),
            priority=0,
            due_at=batch.created_at,
            payload=msgspec.json.encode({"batch": batch.id}).decode(),
            created_at=batch.created_at,
        )


def _take(book: Book, request: Adjust, *, partly: bool, now: int) -> dict[str, int]:
    """Take an allotment out of the book; how much it is of each SKU."""
    wanted = {sku: -quantity for sku, quantity in request.lines.items()}
    if partly:
        there = {sku: book.stock[sku].available for sku in wanted if sku in book.stock}
        wanted = {sku: min(number, there.get(sku, 0)) for sku, number in wanted.items()}
        wanted = {sku: number for sku, number in wanted.items() if number}
        if not wanted:
            return {}
    lines = {sku: -number for sku, number in wanted.items()}
    _apply(book, Adjust(request.id, lines, request.reason), now)
    return wanted


def _apply(book: Book, request: Adjust, now: int) -> None:
    """Move stock, or raise an error, so that the transaction writes nothing."""
    answer_of(Receipt, book.apply(request, now))


def _open(allotments: Mapping[str, Allotment]) -> list[Allotment]:
    return [each for each in allotments.values() if each.is_open]

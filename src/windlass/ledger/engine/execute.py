"""Executes requests in one database, in a transaction of its own or of the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from windlass.clock import Clock
from windlass.database.connection import Executor, has_begun
from windlass.database.database import Database, Numbers
from windlass.errors import BadConnection, Blocked, DatabaseUnavailable
from windlass.ledger.engine import tally
from windlass.ledger.model.book import Book
from windlass.ledger.model.ledger import LAPSE, DeductionStatus, Outcome, Refusal, Request
from windlass.ledger.store.ledger import GuardFailed, LedgerRows, all_or_nothing
from windlass.value.bucket import bucket_of
from windlass.value.task import NewTask

# Each try is lost to another transaction that used one of the ids at the same moment.
DUPLICATE_TRIES = 20


class RequestExecutor:
    """Executes requests; a repeated request has its effect once."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._rows = LedgerRows(database.dialect)
        self._numbers = Numbers(database)

    def execute(self, requests: Sequence[Request]) -> list[Outcome]:
        """The answers, in order, once the one transaction for all of them is committed.

        Raises Blocked if another transaction holds their rows for too long.
        """
        try:
            first = self._clock.reserve(len(requests))
            written = self._write_first(requests, first)
            return self._read_first(requests, first) if written is None else written
        except Exception as problem:
            if not self._database.dialect.is_locked(problem):
                raise
            raise Blocked(
                "another transaction holds a row of this request for too long; nothing was changed"
            ) from problem

    def _read_first(self, requests: Sequence[Request], first: int) -> list[Outcome]:
        def work(connection: Executor) -> tuple[Book, list[Outcome]]:
            self._rows.limit_time(connection)
            book = self._rows.load(connection, requests)
            outcomes = _apply(book, requests, first)
            self._save(connection, book, first)
            return book, outcomes

        for tries_left in reversed(range(DUPLICATE_TRIES)):
            try:
                book, outcomes = self._database.write(work, patient=False)
                tally.count(book)
                return outcomes
            except Exception as problem:
                if not (tries_left and self._database.dialect.is_duplicate(problem)):
                    raise
        raise AssertionError("the last try returns or raises")

    def _write_first(self, requests: Sequence[Request], first: int) -> list[Outcome] | None:
        """The answers, if all ids are new and the stock suffices, as is nearly always so."""
        book = Book.optimistic(requests) if self._rows.writes_first else None
        if book is None:
            return None
        outcomes = _apply(book, requests, first)
        try:
            if not self._rows.saves_if_met:
                self._database.write(lambda it: self._rows.save(it, book), patient=False)
            elif not self._database.single(
                lambda it: self._rows.save_if_met(it, book), patient=False
            ):
                return None
        except GuardFailed:
            return None
        except Exception as problem:
            # A duplicate: one of the ids was used before.
            if not self._database.dialect.is_duplicate(problem):
                raise
            return None
        tally.count(book)
        return outcomes

    def join(self, executor: Executor, request: Request) -> Outcome:
        """The answer to a request that takes effect when the caller's transaction commits."""
        dialect = self._database.dialect
        try:
            book = self._rows.load_joined(executor, request, self._database.read)
            if not has_begun(executor):
                raise BadConnection(
                    "conn commits each statement by itself; begin a transaction that the ledger "
                    "can join, or leave conn out"
                )
            now = self._clock.now()
            (outcome,) = _apply(book, [request], now)
            if isinstance(outcome, Refusal) and self._is_outdated(outcome):
                raise DatabaseUnavailable(
                    "your transaction began before something that this request needs was "
                    "committed; roll it back and do it again"
                )
            with all_or_nothing(executor):
                self._save(executor, book, now)
            tally.count(book)
            return outcome
        except Exception as problem:
            if dialect.is_duplicate(problem) or dialect.is_conflict(problem):
                raise DatabaseUnavailable(
                    "another transaction changed the same rows or used the same id at the same "
                    "moment; roll yours back and do it again"
                ) from problem
            raise

    def _is_outdated(self, refusal: Refusal) -> bool:
        """Whether others see what the caller's transaction does not see.

        A transaction that reads from an old snapshot would otherwise store a wrong refusal.
        """
        return self._database.read(lambda it: self._rows.exists(it, refusal))

    def _save(self, executor: Executor, book: Book, now: int) -> None:
        self._rows.save(executor, book)
        held = {
            row.id: row.hold_until
            for row in book.deductions.values()
            if row.is_new and row.status is DeductionStatus.HELD and row.hold_until is not None
        }
        if held:
            numbers = self._numbers.take(len(held), inside=executor)
            self._database.dialect.insert(executor, _lapses(held, numbers, now))


def _apply(book: Book, requests: Sequence[Request], first: int) -> list[Outcome]:
    return [book.apply(request, now) for now, request in enumerate(requests, start=first)]


def _lapses(held: Mapping[str, int], numbers: Sequence[int], now: int) -> list[NewTask]:
    """The tasks that end holds: each is due when its hold ends."""
    return [
        NewTask(
            id=number,
            kind=LAPSE,
            task_key=None,
            bucket=bucket_of(str(number)),
            priority=0,
            due_at=until,
            payload=msgspec.json.encode({"deduction": deduction}).decode(),
            created_at=now,
        )
        for number, (deduction, until) in zip(numbers, held.items(), strict=True)
    ]

"""The desk: carries out requests in one database, in a transaction of its own or of the caller."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from windlass.clock import Clock
from windlass.errors import BadConnection, DatabaseUnavailable
from windlass.ledger import hold
from windlass.model.book import Book
from windlass.model.ledger import DeductionStatus, Outcome, Request
from windlass.store.connection import has_begun, join
from windlass.store.database import Database
from windlass.store.dialect.base import Executor
from windlass.store.ledger import LedgerRows, Unmet
from windlass.store.number import Numbers

# Each time somebody else has used one of the ids, and is done with it.
DUPLICATE_TRIES = 20


class Desk:
    """Carries out requests; whatever it does can be done again, and has its effect once."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._rows = LedgerRows(database.dialect)
        self._numbers = Numbers(database)

    def carry_out(self, requests: Sequence[Request]) -> list[Outcome]:
        """The answers, in order, once the one transaction that carries them all is committed."""
        first = self._clock.reserve(len(requests))
        hoped = self._hope(requests, first)
        if hoped is not None:
            return hoped

        def work(connection: Connection) -> list[Outcome]:
            book = self._rows.load(connection, requests)
            return self._apply(connection, book, requests, first)

        for tries_left in reversed(range(DUPLICATE_TRIES)):
            try:
                return self._database.write(work)
            except IntegrityError as problem:
                if not (tries_left and self._database.dialect.is_duplicate(problem)):
                    raise
        raise AssertionError("the last try returns or raises")

    def _hope(self, requests: Sequence[Request], first: int) -> list[Outcome] | None:
        """The answers, if all ids are new and everything is there, as it nearly always is."""
        book = Book.hopeful(requests) if self._rows.hopes else None
        if book is None:
            return None
        outcomes = [book.apply(request, now) for now, request in enumerate(requests, start=first)]
        try:
            if not self._rows.stands_alone:
                self._database.write(lambda connection: self._rows.save(connection, book))
            elif not self._database.single(lambda it: self._rows.save_alone(it, book)):
                return None
        except Unmet:
            return None
        except IntegrityError as problem:
            # Somebody has used one of the ids.
            if not self._database.dialect.is_duplicate(problem):
                raise
            return None
        return outcomes

    def join(self, conn: object, request: Request) -> Outcome:
        """The answer to a request that becomes true if the caller commits."""
        dialect = self._database.dialect
        executor = join(conn, self._database.engine, dialect)
        try:
            if dialect.keep_others_out is not None:
                executor.execute(dialect.keep_others_out, {})
            book = self._rows.load_joined(executor, request)
            if not has_begun(executor):
                raise BadConnection(
                    "conn commits each statement by itself; begin a transaction that the ledger "
                    "can join, or leave conn out"
                )
            (outcome,) = self._apply(executor, book, [request], self._clock.now())
            return outcome
        except Exception as problem:
            if dialect.is_duplicate(problem):
                raise DatabaseUnavailable(
                    "another transaction used the same id at the same moment; "
                    "roll yours back and do it again"
                ) from problem
            raise

    def _apply(
        self, executor: Executor, book: Book, requests: Sequence[Request], first: int
    ) -> list[Outcome]:
        outcomes = [book.apply(request, now) for now, request in enumerate(requests, start=first)]
        self._rows.save(executor, book)
        held = {
            row.id: row.hold_until
            for row in book.deductions.values()
            if row.is_new and row.status is DeductionStatus.HELD and row.hold_until is not None
        }
        if held:
            numbers = self._numbers.take(len(held), inside=executor)
            self._database.dialect.insert(executor, hold.tasks(held, numbers, now=first))
        return outcomes

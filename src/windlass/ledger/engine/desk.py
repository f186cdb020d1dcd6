"""The desk: carries out requests in one database, in a transaction of its own or of the caller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from windlass.clock import Clock
from windlass.database.connection import has_begun
from windlass.database.database import Database
from windlass.database.dialect.base import Executor
from windlass.database.number import Numbers
from windlass.errors import BadConnection, Blocked, DatabaseUnavailable
from windlass.ledger.engine import hold
from windlass.ledger.model.book import Book
from windlass.ledger.model.ledger import DeductionStatus, Outcome, Refusal, Request
from windlass.ledger.store.ledger import LedgerRows, Unmet

# Each time somebody else has used one of the ids, and is done with it.
DUPLICATE_TRIES = 20
SAVEPOINT = text("savepoint windlass_ledger")
ROLL_BACK = text("rollback to savepoint windlass_ledger")
RELEASE = text("release savepoint windlass_ledger")


class Desk:
    """Carries out requests; whatever it does can be done again, and has its effect once."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._rows = LedgerRows(database.dialect)
        self._numbers = Numbers(database)

    def carry_out(self, requests: Sequence[Request]) -> list[Outcome]:
        """The answers, in order, once the one transaction that carries them all is committed.

        Raises Blocked if somebody else holds their rows for longer than others should wait.
        """
        try:
            first = self._clock.reserve(len(requests))
            hoped = self._hope(requests, first)
            return self._carry_out(requests, first) if hoped is None else hoped
        except DBAPIError as problem:
            if not self._database.dialect.is_locked(problem):
                raise
            raise Blocked(
                "another transaction holds a row of this request for too long; nothing was changed"
            ) from problem

    def _carry_out(self, requests: Sequence[Request], first: int) -> list[Outcome]:
        def work(connection: Connection) -> list[Outcome]:
            self._rows.begin(connection)
            book = self._rows.load(connection, requests)
            outcomes = _apply(book, requests, first)
            self._save(connection, book, first)
            return outcomes

        for tries_left in reversed(range(DUPLICATE_TRIES)):
            try:
                return self._database.write(work, patient=False)
            except IntegrityError as problem:
                if not (tries_left and self._database.dialect.is_duplicate(problem)):
                    raise
        raise AssertionError("the last try returns or raises")

    def _hope(self, requests: Sequence[Request], first: int) -> list[Outcome] | None:
        """The answers, if all ids are new and everything is there, as it nearly always is."""
        book = Book.hopeful(requests) if self._rows.hopes else None
        if book is None:
            return None
        outcomes = _apply(book, requests, first)
        try:
            if not self._rows.stands_alone:
                self._database.write(lambda it: self._rows.save(it, book), patient=False)
            elif not self._database.single(
                lambda it: self._rows.save_alone(it, book), patient=False
            ):
                return None
        except Unmet:
            return None
        except IntegrityError as problem:
            # Somebody has used one of the ids.
            if not self._database.dialect.is_duplicate(problem):
                raise
            return None
        return outcomes

    def join(self, executor: Executor, request: Request) -> Outcome:
        """The answer to a request that becomes true if the caller, whose `executor` is, commits."""
        dialect = self._database.dialect
        try:
            if dialect.keep_others_out is not None:
                executor.execute(dialect.keep_others_out, {})
            book = self._rows.load_joined(executor, request)
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
            with _all_or_nothing(executor):
                self._save(executor, book, now)
            return outcome
        except Exception as problem:
            if dialect.is_duplicate(problem) or dialect.is_conflict(problem):
                raise DatabaseUnavailable(
                    "another transaction changed the same rows or used the same id at the same "
                    "moment; roll yours back and do it again"
                ) from problem
            raise

    def _is_outdated(self, refusal: Refusal) -> bool:
        """Whether what the caller's transaction does not see is there for everybody else.

        A transaction that sees the rows of one moment would otherwise be refused for ever what came
        to be after that moment.
        """
        return self._database.read(lambda it: self._rows.knows(it, refusal))

    def _save(self, executor: Executor, book: Book, now: int) -> None:
        self._rows.save(executor, book)
        held = {
            row.id: row.hold_until
            for row in book.deductions.values()
            if row.is_new and row.status is DeductionStatus.HELD and row.hold_until is not None
        }
        if held:
            numbers = self._numbers.take(len(held), inside=executor)
            self._database.dialect.insert(executor, hold.tasks(held, numbers, now=now))


def _apply(book: Book, requests: Sequence[Request], first: int) -> list[Outcome]:
    return [book.apply(request, now) for now, request in enumerate(requests, start=first)]


@contextmanager
def _all_or_nothing(executor: Executor) -> Iterator[None]:
    """Take back what was written in the block if it fails: the caller may commit all the same."""
    executor.execute(SAVEPOINT, {})
    try:
        yield
    except BaseException:
        # Where the database has ended the whole transaction there is nothing left to take back.
        with suppress(Exception):
            executor.execute(ROLL_BACK, {})
        raise
    executor.execute(RELEASE, {})

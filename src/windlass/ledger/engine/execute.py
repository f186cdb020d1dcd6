"""Executes requests in one database, in a transaction of its own or of the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from windlass.clock import Clock
from windlass.database.connection import Executor, has_begun
from windlass.database.database import Database, Numbers
from windlass.database.joined import JOINED
from windlass.errors import (
    BadConnection,
    Blocked,
    DatabaseUnavailable,
    IdConflict,
    NotDecided,
    Refused,
)
from windlass.ledger.engine import tally
from windlass.ledger.model.book import Book
from windlass.ledger.model.ledger import (
    LAPSE,
    Conflict,
    DeductionStatus,
    Outcome,
    Refusal,
    Request,
    Undecided,
)
from windlass.ledger.store.ledger import GuardFailed, LedgerRows, all_or_nothing
from windlass.value.bucket import bucket_of
from windlass.value.task import NewTask

T = TypeVar("T")

# Each try is lost to another transaction that used one of the ids at the same moment.
DUPLICATE_TRIES = 20
# One that waits longer for rows is not alone: others of other processes want them.
WAITS_SECONDS = 0.002


REFUSALS: dict[str, Callable[..., Refused]] = {
    kind.__name__: kind for kind in Refused.__subclasses__()
}


class RequestExecutor:
    """Executes requests; a repeated request has its effect once."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._rows = LedgerRows(database.dialect)
        self._numbers = Numbers(database)
        # Of the last optimistic write: whether there was enough, and how long it waited for rows.
        self._suffices = True
        self._waited = 0.0

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
            # What is told again may have been committed early, by any process. Its row is locked,
            # which is logged, so this commit waits for the disk although it writes nothing.
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
            is_met = self._save_first(book, is_shared=len(requests) > 1)
        except GuardFailed:
            is_met = False
        except Exception as problem:
            # A duplicate: one of the ids was used before.
            if not self._database.dialect.is_duplicate(problem):
                raise
            return None
        self._suffices = is_met
        if not is_met:
            return None
        tally.count(book)
        return outcomes

    def _save_first(self, book: Book, *, is_shared: bool) -> bool:
        """Write an optimistic book, and hold rows that other processes want as short as can be."""
        database, rows = self._database, self._rows
        if not rows.saves_if_met:
            # An answer to the commit would take a round trip, in which the rows stay locked. If
            # stock has been short, the guards come first, so that nothing is inserted in vain.
            commits, hot_last = JOINED.get() is None, self._suffices
            database.write(
                lambda it: rows.save_first(it, book, hot_last=hot_last, commits=commits),
                patient=False,
            )
            return True
        # In a joined transaction the setting would be that of all its writes.
        early = JOINED.get() is None and (is_shared or self._waited > WAITS_SECONDS)
        met = database.single(lambda it: rows.save_if_met(it, book, early=early), patient=False)
        self._waited = met.waited
        if met.is_so and early:
            database.single(rows.flush)
        return met.is_so

    def within(
        self,
        connection: Executor,
        requests: Sequence[Request],
        decide: Callable[[Book], T],
        *,
        now: int,
    ) -> tuple[T, Book]:
        """Let `decide` change the rows that requests are about, in a transaction of ours.

        Count the book once the transaction is committed.
        """
        book = self._rows.load(connection, requests)
        answer = decide(book)
        self._save(connection, book, now)
        return answer, book

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


def answer_of(kind: type[T], outcome: Outcome) -> T:
    """What a caller gets for an outcome: the answer, or the error that says why there is none."""
    match outcome:
        case Refusal():
            raise REFUSALS[outcome.error](**outcome.facts)
        case Conflict():
            raise IdConflict(outcome.id, outcome.difference)
        case Undecided():
            raise NotDecided(outcome.id, outcome.why)
    assert isinstance(outcome, kind)
    return outcome


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

"""The effects of a message: one transaction, which remembers it and has what its handler wrote."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from windlass import telemetry
from windlass.core.run.contract import Keeper
from windlass.core.run.many.together import BadAnswer, is_overload
from windlass.core.run.ready import KindLoad, Run
from windlass.core.task.current import current
from windlass.core.task.kind import Given
from windlass.database.connection import Connection
from windlass.database.database import DATABASE_ERRORS, Database, first_line
from windlass.database.joined import JoinedTransaction
from windlass.errors import NoContext, WindlassError
from windlass.queue.engine.answer import meant_for_all, read_answers
from windlass.queue.model.consume import terms_of
from windlass.queue.model.message import Delivered, ReceivedMessage
from windlass.queue.store import inbox
from windlass.queue.store.inbox import KeptRow, Known
from windlass.value.outcome import Cancelled, Failed, Outcome, Retried, Snoozed, Succeeded
from windlass.value.task import Claimed

# In memory only, and larger than any number in a database.
NUMBERS = count(3 << 62)
UNDONE = (
    "the database has undone the transaction of the message: its handler caught an error of the "
    "database, or rolled back; put statements that may fail into context().conn.begin_nested()"
)
# A handler that often conflicts with other transactions counts a try after this many conflicts.
MOST_DISTURBED = 20
MOST_DISTURBANCES = 1_000


@dataclass(frozen=True)
class ToKeep:
    """A message that did not succeed: when it is tried again, or None if it failed for good."""

    held: HeldMessage
    tries: int
    due_at: int | None
    error: str | None
    # The losses in a row: none, if its handler has ended.
    lost: int = 0

    @classmethod
    def again(cls, held: HeldMessage, row: KeptRow, *, due_at: int) -> ToKeep:
        """A claim that says nothing about the message: as if it had not been claimed."""
        return cls(held, row.tries - 1, due_at, None, lost=row.lost - 1)

    @property
    def too_large(self) -> str | None:
        """What of it is too large for some database; None if it can be kept, or is."""
        return self.held.message.too_large if self.held.row is None else None


KeepInside = Callable[[Connection, Sequence[tuple["HeldMessage", Outcome]]], list[ToKeep]]


@dataclass(eq=False)
class HeldMessage:
    """A message that a worker has: from its broker, or kept from an earlier try."""

    id: str
    message: ReceivedMessage
    value: object
    lane: str | None = None
    # The deliveries to acknowledge: several, if it was delivered again meanwhile.
    deliveries: list[Delivered] = field(default_factory=list)
    row: KeptRow | None = None
    # Whether it runs without others, because a group with it has failed.
    is_alone: bool = False
    # Whether no other message may run meanwhile, because a worker has died with it.
    is_suspect: bool = False
    # Whether its start was counted: it cannot be kept, so that claims would count them.
    is_counted: bool = False
    # How often the database was away when it ran.
    disturbed: int = 0
    # When it came, on the monotonic clock.
    since: float = field(default_factory=time.monotonic)

    @property
    def tries(self) -> int:
        """The number of the try that runs, or would run next."""
        return 1 if self.row is None else self.row.tries


class Disturbances:
    """How often the transactions of kept messages were disturbed, while they are tried again."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def of(self, message_id: str) -> int:
        return self._counts.get(message_id, 0)

    def note(self, held: Iterable[HeldMessage]) -> None:
        """Remember the counts of messages whose calls have ended."""
        for each in held:
            self._counts.pop(each.id, None)
            if each.disturbed:
                self._counts[each.id] = each.disturbed
        while len(self._counts) > MOST_DISTURBANCES:
            del self._counts[next(iter(self._counts))]


class MessageRun(Run):
    """One call of a consumer's handler, with one message or several."""

    __slots__ = (
        *("answers", "database", "held", "is_committed", "is_exposed", "is_over", "is_unsure"),
        *("keep_inside", "kept_inside", "now", "transaction"),
    )

    def __init__(
        self,
        held: Sequence[HeldMessage],
        load: KindLoad,
        *,
        database: Database,
        worker: int,
        now: int,
        keeper: Keeper,
        keep_inside: KeepInside,
    ) -> None:
        super().__init__(_claimed(held, load, worker, now), load)
        self.number = self.task.id
        self.held = list(held)
        self.database = database
        self.now = now
        self.keeper = keeper
        # How each of its messages ended, if the handler has said that, and those to keep: they are
        # kept in the transaction that remembers the others.
        self.answers: list[Outcome] | None = None
        self.keep_inside = keep_inside
        self.kept_inside: list[ToKeep] = []
        self.is_committed = False
        self.transaction: JoinedTransaction | None = None
        # Whether another delivery of one of its messages was handled meanwhile, or the database
        # was away: each of its messages has had its effects, or none.
        self.is_unsure = False
        # Whether the handler has the connection, and may have undone what was written.
        self.is_exposed = False
        # Whether it was given up: then its transaction must not commit any more.
        self.is_over = False

    @property
    def key(self) -> str | None:
        return self.held[0].id

    def given(self) -> Given:
        values = [each.value for each in self.held]
        return (values if terms_of(self.kind).many is not None else values[0],), {}

    def begin(self) -> JoinedTransaction:
        """Its transaction, which begins with the first use."""
        self.transaction = JoinedTransaction(self.database, self._remember)
        return self.transaction

    def answer(self, result: object) -> Outcome | None:
        """Write down how each message ended, if the handler has said so.

        Returns what the call counts as, if what it calls can bear no more.
        """
        if terms_of(self.kind).many is None:
            return None
        tries = [each.tries for each in self.held]
        answers = read_answers(result, kind=self.kind, tries=tries)
        if answers is None:
            return None
        left = [
            (each, outcome)
            for each, outcome in zip(self.held, answers, strict=True)
            if not isinstance(outcome, Succeeded | Cancelled)
        ]
        if left:
            assert self.transaction is not None
            self.kept_inside = self.transaction.write(
                lambda connection: self.keep_inside(connection, left)
            )
        self.answers = answers
        return next((each for each in answers if is_overload(each)), None)

    @property
    def outcomes(self) -> list[Outcome] | None:
        """How its messages ended, without a commit; None if nobody knows which is to blame."""
        assert self.outcome is not None
        if len(self.held) == 1 and not isinstance(self.error, BadAnswer):
            return [self.outcome]
        tries = [each.tries for each in self.held]
        found = meant_for_all(self.error, self.outcome, kind=self.kind, tries=tries)
        is_failure = isinstance(self.outcome, Failed | Retried | Snoozed)
        return found if found or is_failure else [self.outcome] * len(self.held)

    def commit(self) -> None:
        assert self.transaction is not None
        if self.is_over:
            raise WindlassError("the run was given up before its handler ended")
        if terms_of(self.kind).lane is not None:
            # Another worker may receive for the lanes already.
            alive = self.database.dialect.alive
            if not self.transaction.read(lambda connection: alive(connection, self.task.worker)):
                raise WindlassError("the worker was marked dead; another one has its lanes")
        if self.transaction.is_disturbed or (self.is_exposed and not self._stands()):
            raise WindlassError(UNDONE)
        self.transaction.commit()
        self.is_committed = True

    def _stands(self) -> bool:
        """Whether the transaction is still the one that remembers its messages.

        A handler that catches an error of the database, or rolls back, may have undone that.
        """
        fresh = {each.id for each in self.held if each.row is None}
        rows = [each.row.id for each in self.held if each.row is not None]

        def look(connection: Connection) -> bool:
            remembered = inbox.known(connection, self.kind.name, fresh) == fresh
            return remembered and not inbox.are_kept(connection, rows)

        assert self.transaction is not None
        try:
            return self.transaction.read(look)
        except DATABASE_ERRORS:
            # PostgreSQL takes no statement after one that failed.
            return False

    def forgives(self, problem: Exception) -> bool:
        """Whether a run ended for a reason that no message is to blame for."""
        if isinstance(problem, Known):
            self.is_unsure = True
        elif self.transaction is not None and self.transaction.is_disturbed:
            for each in self.held:
                each.disturbed += 1
            self.is_unsure = all(each.disturbed <= MOST_DISTURBED for each in self.held)
            if self.is_unsure:
                telemetry.emit(
                    "database.failed", database=self.database.name, error=first_line(problem)
                )
        return self.is_unsure

    def _remember(self, connection: Connection) -> None:
        fresh = [each.id for each in self.held if each.row is None]
        until = self.now + terms_of(self.kind).remember
        try:
            if fresh:
                inbox.remember(connection, self.kind.name, fresh, until=until)
        except Exception as problem:
            if self.database.dialect.is_duplicate(problem):
                raise Known from None
            raise
        for each in self.held:
            if each.row is not None and not inbox.take(connection, each.row):
                raise Known


def effectful(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which in the run of a message has one transaction for all its effects.

    Outside of such a run it is just called.
    """
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def acall(*args: Any, **kwargs: Any) -> Any:
            run = _own_run()
            if run is None:
                return await function(*args, **kwargs)
            transaction = run.begin()
            try:
                with transaction.entered():
                    result = await function(*args, **kwargs)
                    outcome = await asyncio.to_thread(run.answer, result)
                await asyncio.to_thread(run.commit)
                return outcome
            except Exception as problem:
                if not run.forgives(problem):
                    raise
            finally:
                await asyncio.to_thread(transaction.roll_back)
            return None

        return acall

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        run = _own_run()
        if run is None:
            return function(*args, **kwargs)
        transaction = run.begin()
        try:
            with transaction.entered():
                outcome = run.answer(function(*args, **kwargs))
            run.commit()
            return outcome
        except Exception as problem:
            if not run.forgives(problem):
                raise
        finally:
            transaction.roll_back()
        return None

    return call


def connection_of(run: Run) -> Connection:
    """The connection of the transaction that the handler of a message is in."""
    if not isinstance(run, MessageRun) or run.transaction is None:
        raise NoContext(
            "context().conn is the transaction of a message, and this is not the handler of one; "
            "in a task, use context().on_finish(write)"
        )
    run.is_exposed = True
    return run.transaction.connection


def messages_of(run: Run) -> list[ReceivedMessage]:
    """The messages that the handler was called with."""
    if not isinstance(run, MessageRun):
        raise NoContext("context().messages are those of a consumer; this is not one")
    return [each.message for each in run.held]


def _own_run() -> MessageRun | None:
    run = current.get()
    return run if isinstance(run, MessageRun) and run.transaction is None else None


def _claimed(held: Sequence[HeldMessage], load: KindLoad, worker: int, now: int) -> Claimed:
    return Claimed(
        id=next(NUMBERS),
        kind=load.kind.name,
        task_key=held[0].id,
        priority=load.kind.priority,
        due_at=now,
        payload="{}",
        attempt=held[0].tries,
        lost=0,
        started_at=now,
        bucket=0,
        # Not a row that was only read: its claim is not written down.
        batch=0,
        worker=worker,
    )

"""A transaction that calls on its database join: what they write is committed together.

The handler of a message runs in one. Inside, `Database.write` begins no transaction of its own, but
writes in this one, behind a savepoint: a call that fails is undone, and the handler may go on. The
transaction begins when it is first needed, so that a handler which waits first holds no locks.

Calls find it by a context variable, which coroutines and the threads of `a` twins inherit. They use
its connection one at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection

from windlass.errors import DatabaseUnavailable, NotPossible

if TYPE_CHECKING:
    from windlass.database.database import Database
    from windlass.database.dialect.base import Dialect

T = TypeVar("T")

# The transaction that the caller is in.
JOINED: ContextVar[JoinedTransaction | None] = ContextVar("windlass_joined", default=None)


class JoinedTransaction:
    """One transaction of a database. Commit it, or roll it back; each of them once."""

    def __init__(self, database: Database, on_begin: Callable[[Connection], None]) -> None:
        self.database = database
        self._on_begin = on_begin
        self._lock = threading.RLock()
        self._stack = ExitStack()
        self._connection: Connection | None = None
        self._is_over = False
        self._is_disturbed = False

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Inside the block, calls on the database join the transaction."""
        token = JOINED.set(self)
        try:
            yield
        finally:
            JOINED.reset(token)

    def use(self, connection: Connection) -> None:
        """Be the transaction that `connection` is in already."""
        self._connection = connection

    @property
    def has_begun(self) -> bool:
        return self._connection is not None

    @property
    def connection(self) -> Connection:
        """Its connection; begins it if it has not begun."""
        with self._lock:
            if self._is_over:
                raise NotPossible("the transaction of this message is over; use it in the handler")
            if self._connection is None:
                self._connection = self._begin()
            return self._connection

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` inside; if it raises, what it wrote is undone."""
        with self._lock, self._watched():
            connection = self.connection
            with connection.begin_nested():
                return work(connection)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` inside; it sees what was written."""
        with self._lock:
            return work(self.connection)

    def commit(self) -> None:
        """Commit it; begins it first if it has not begun."""
        with self._lock, self._watched():
            self.connection.commit()
            self._end()

    @property
    def is_disturbed(self) -> bool:
        """Whether it failed for a reason that has nothing to do with what was written.

        The database was away, or two transactions were in each other's way. After a commit that
        failed so, it may have been committed.
        """
        connection = self._connection
        return self._is_disturbed or (connection is not None and connection.invalidated)

    def roll_back(self) -> None:
        """Undo everything, if it is not over."""
        with self._lock:
            if not self._is_over:
                self._end()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except Exception as problem:
            self._is_disturbed |= isinstance(
                problem, DatabaseUnavailable
            ) or self.database.can_retry(problem)
            raise

    def _begin(self) -> Connection:
        dialect = self.database.dialect
        with self._watched():
            return self._begun(dialect)

    def _begun(self, dialect: Dialect) -> Connection:
        try:
            self._stack.enter_context(dialect.turn)
            # The thread that ends it may be another one.
            dialect.share_turn()
            connection = self._stack.enter_context(self.database.engine.connect())
            writing = dialect.writing(connection)
            writing.begin()
            self._on_begin(writing)
        except BaseException:
            self._end()
            raise
        return writing

    def _end(self) -> None:
        self._is_over = True
        # Returning a connection to its pool rolls back what was not committed.
        self._stack.close()


@contextmanager
def joining(database: Database, connection: Connection) -> Iterator[None]:
    """Inside the block, calls on the database join the transaction that `connection` is in.

    Whoever began that transaction ends it, or repeats it.
    """
    transaction = JoinedTransaction(database, lambda _connection: None)
    transaction.use(connection)
    with transaction.entered():
        yield


def joined_transaction(database: Database) -> JoinedTransaction | None:
    """The transaction of this database that the caller is in."""
    found = JOINED.get()
    return found if found is not None and found.database is database else None

"""The fate of a call that writes rows: it counts once, although an answer may be lost.

When the answer to a commit is lost, the caller cannot know whether it counted. The call is tried
again with the same ids, and the rows tell: they are in the table, or have left a trace when they
were deleted (`core/task/store/gone.py`), or the first try did not count. A transaction is whole, so
a single id tells for all of them. Then the answer of the first try is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from windlass.core.task.store import gone
from windlass.core.task.store import task as store
from windlass.database.connection import Connection
from windlass.database.database import OUTAGE_ERRORS, Database
from windlass.database.dialect.base import Executor
from windlass.errors import DatabaseUnavailable

T = TypeVar("T")

LOST = (DatabaseUnavailable, *OUTAGE_ERRORS)


class Unanswered(DatabaseUnavailable):
    """The rows may have been written: the answer was lost, and so was the next one."""


class _Counted(Exception):
    """An earlier try was committed, so this one must not be."""


class Fate(Generic[T]):
    """The fate of one call, over all its tries."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Whether a try was sent and not answered, what it would have answered, and its rows.
        self.is_unknown = False
        self._answers: list[T] = []
        self._ids: Sequence[int] = ()

    def sends(self, answer: T, ids: Sequence[int]) -> T:
        """Say, last in the transaction, what it answers if it is committed, and its ids."""
        self.is_unknown = self._database.dialect.loses_answers
        self._answers[:] = [answer]
        self._ids = ids
        return answer

    def check(self, executor: Executor, ids: Sequence[int]) -> None:
        """End this try if an earlier one counted. Call it when the rows are inserted or locked."""
        if self.is_unknown and self._is_gone(executor, ids):
            raise _Counted

    def settle(self, write: Callable[[], T]) -> T:
        """The answer of `write`, or of the try before that counted."""
        try:
            return self._try(write)
        except _Counted:
            return self._answers[0]
        except gone.Forgotten as problem:
            raise self._unanswered("the last try came too late to know") from problem
        except LOST as problem:
            if self.is_unknown:
                raise self._unanswered(str(problem)) from problem
            raise

    def _try(self, write: Callable[[], T]) -> T:
        try:
            return write()
        except (_Counted, gone.Forgotten, *LOST):
            raise
        except Exception:
            # It was refused, but the try before may have counted, and its rows may be there.
            if self.is_unknown and self._database.read(self._is_written):
                raise _Counted from None
            raise

    def _is_written(self, connection: Connection) -> bool:
        if not self._ids:
            return False
        is_there = store.is_any_there(connection, self._database.dialect, self._ids)
        return is_there or self._is_gone(connection, self._ids)

    def _is_gone(self, executor: Executor, ids: Sequence[int]) -> bool:
        # Tables of release 0.1.0 have no traces: there only rows that still exist tell.
        keeps_traces = self._database.dialect.keeps_traces
        return bool(ids) and keeps_traces and gone.is_any_gone(executor, ids)

    def _unanswered(self, why: str) -> Unanswered:
        return Unanswered(
            f"an answer of {self._database.name} was lost, and it is not known whether the call "
            f"counted; nothing was written elsewhere: {why}"
        )

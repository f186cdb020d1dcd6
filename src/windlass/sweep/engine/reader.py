"""Calls the source of a sweep: reserves the next rows of a range and reads them.

First the source says where the next rows end, then the range is reserved up to there, and only then
the rows are read, so everything that was committed before the reservation is seen. A source that
cannot say where rows end without returning them is read first, and then its rows are reserved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from windlass import telemetry
from windlass.core.alert.model import Trouble
from windlass.core.face import Site
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.database import Database, first_line
from windlass.errors import BadKey, BadSource
from windlass.source.contract import (
    LONGEST_KEY,
    CheckedSource,
    Key,
    SourceFailed,
    SweepSource,
    decoded,
    encode_key,
    name_of,
)
from windlass.sweep.model import Range, name_of_rows, terms_of
from windlass.sweep.store import range as ranges
from windlass.sweep.store import sweep as store

T = TypeVar("T")
Row = tuple[Key, Any]

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
# Text up to this length is short enough for a key, however it is encoded.
SHORT = LONGEST_KEY // 4


class SourceCalls:
    """Calls one source on its own threads, because a source may be slow.

    After an error it waits: longer after each failed attempt.
    """

    def __init__(self, kind: Kind, site: Site, *, threads: int) -> None:
        self.source = CheckedSource(terms_of(kind).source)
        self._name = name_of_rows(kind)
        self._site = site
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="windlass-source")
        # Why the sweep cannot continue, as its row says.
        self.problem: Exception | None = None
        # Whether the row has an error, which may be of a worker that has left.
        self.is_noted = False
        self._last_failed = False
        self._has_answered = False
        # When the source may be called again.
        self.retry_at = 0.0
        self._pause = FIRST_PAUSE

    def submit(self, call: Callable[..., T], *given: Any) -> Future[T]:
        """Make a call on another thread."""
        return self._threads.submit(self._call, call, *given)

    def result(self, future: Future[T]) -> T | None:
        """What a call returned; None if the source failed, which is reported.

        Any other error is one of our own database: the loop reports it and tries again.
        """
        try:
            found = future.result()
        except (SourceFailed, BadKey) as failed:
            problem = failed.__cause__ if isinstance(failed, SourceFailed) else failed
            self.report(problem or failed)
            self._last_failed = True
            # The pause grows with each attempt, not with each range that failed in it.
            now = time.monotonic()
            if now >= self.retry_at:
                self.retry_at = now + self._pause
                self._pause = min(2 * self._pause, LONGEST_PAUSE)
            return None
        self._last_failed, self._has_answered = False, True
        return found

    @staticmethod
    def _call(call: Callable[..., T], *given: Any) -> T:
        """Only a source raises a CancelledError or a SystemExit here: no signal arrives."""
        try:
            return call(*given)
        except Exception:
            raise
        except BaseException as problem:
            raise SourceFailed(repr(problem)) from problem

    def report(self, problem: BaseException) -> None:
        """Say in the row of the sweep why it cannot continue; alert people if that is new."""
        self.problem = problem if isinstance(problem, Exception) else BadSource(repr(problem))
        name, error = self._name, first_line(self.problem)

        def work(connection: Connection) -> bool:
            is_new = store.note_error(connection, name, error)
            if is_new:
                text = f"sweep {name!r} cannot read its source: {error}"
                store.raise_alert(connection, self._site, Trouble("source", name, text))
            return is_new

        if self._site.database.write(work):
            telemetry.emit("sweep.failed", sweep=name, error=error)

    def report_recovery(self) -> None:
        """Clear the error in the row of the sweep, if the source works again."""
        is_known = self.problem is not None or (self.is_noted and self._has_answered)
        if self._last_failed or not is_known:
            return
        self.problem, self._pause, self.is_noted = None, FIRST_PAUSE, False
        self._site.database.write(lambda connection: store.note_error(connection, self._name, None))

    def close(self) -> None:
        """Let the threads end; it does not wait for one that hangs."""
        self._threads.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class ReadRequest:
    """A claimed range as its owner knows it, and how many rows it wants."""

    range: Range
    rows_wanted: int
    page_size: int


@dataclass
class Reading:
    """The rows in pages, or that there are none, or that the range has changed."""

    read_to: str | None
    end: str | None
    pages: list[Sequence[Row]] = field(default_factory=list)
    has_reserved: bool = False
    is_exhausted: bool = False
    again_is_over: bool = False
    is_lost: bool = False


def read_more(database: Database, source: SweepSource, request: ReadRequest) -> Reading:
    """Reserve the next rows of a range and read them."""
    seen = request.range
    reading = Reading(seen.read_to, seen.end)
    after, last = decoded(seen.read_to), decoded(seen.again_to or seen.end)
    edge, rows = _find_edge(source, after, last, count=request.rows_wanted)
    if edge is None and seen.again_to is not None:
        reading.again_is_over = True
        return reading
    if edge is None and seen.end is None:
        reading.is_exhausted = True
        return reading
    wanted = seen.end if edge is None else encode_key(edge, what=name_of(source))
    assert wanted is not None
    if not reserve(database, seen, wanted, reading=reading):
        return reading
    reading.read_to, reading.has_reserved = wanted, True
    reading.is_exhausted = wanted == seen.end
    upto_key = edge if edge is not None else last
    reading.pages = [rows] if rows else _pages(source, after, upto_key, size=request.page_size)
    return reading


def reserve(database: Database, seen: Range, wanted: str, *, reading: Reading) -> bool:
    """Reserve a range up to `wanted`; if that fails, `reading` says how the range has changed."""
    assert seen.worker is not None
    if database.write_as(
        seen.worker, lambda connection: ranges.reserve(connection, seen, wanted), lost=False
    ):
        return True
    found = database.read(lambda connection: ranges.get(connection, seen.id))
    if found is None or found.batch != seen.batch:
        reading.is_lost = True
        return False
    reading.end = found.end
    # A transaction whose answer was lost may have reserved it.
    return found.end == seen.end and found.read_to == wanted


def _find_edge(
    source: SweepSource, after: Key | None, upto: Key | None, *, count: int
) -> tuple[Key | None, Sequence[Row] | None]:
    """Where the next rows end; with the rows, if the source cannot say it without them."""
    edge: Any = getattr(source, "edge", None)
    if edge is not None:
        return edge(after, upto, count), None
    rows = _read(source, after, upto, limit=count)
    return (rows[-1][0] if rows else None), rows


def _pages(
    source: SweepSource, after: Key | None, upto: Key | None, *, size: int
) -> list[Sequence[Row]]:
    """All rows up to `upto`; a source may return fewer than `size` rows at once."""
    pages: list[Sequence[Row]] = []
    while page := _read(source, after, upto, limit=size):
        pages.append(page)
        if page[-1][0] == upto:
            break
        if page[-1][0] == after:
            _refuse(source, f"asked for rows after {after!r}, it ended with that row")
        after = page[-1][0]
    return pages


def _read(source: SweepSource, after: Key | None, upto: Key | None, *, limit: int) -> Sequence[Row]:
    rows = source.read(after, upto, limit)
    try:
        # Every whole number can be stored, and most keys are one.
        keys = [key for key, _ in rows if type(key) is not int]
    except (TypeError, ValueError):
        _refuse(source, "read() must return a list of (key, row)")
    for key in keys:
        # A key that cannot be stored is found now, not when it has to be saved.
        if not _is_plain(key):
            encode_key(key, what=name_of(source))
    return rows


def _refuse(source: SweepSource, reason: str) -> NoReturn:
    raise SourceFailed(reason) from BadSource(f"{name_of(source)}: {reason}")


def _is_plain(key: Key) -> bool:
    """Whether a key can be stored for sure; encoding it would cost more."""
    return type(key) is str and len(key) <= SHORT and key.isascii() and key.isprintable()


def find_row(kind: Kind, source: SweepSource, key: Key) -> Row | None:
    """The row of one key, after the key as the source has it."""
    locate: Callable[[Key], Row | None] | None = getattr(source, "locate", None)
    if locate is not None:
        return locate(key)
    find: Callable[[Key], Any] | None = getattr(source, "find", None)
    if find is None:
        if terms_of(kind).key_only:
            return key, None
        raise BadSource(
            f"{name_of(source)} has no find(key), so it cannot be asked for single rows; give it "
            f"one, or declare {kind.name!r} with key_only=True"
        )
    row = find(key)
    return None if row is None else (key, row)


def known_by(kind: Kind, row: Row) -> Key:
    """The key that people know a row by: its own, unless the source has another."""
    key, what = row
    key_of: Callable[[Any], Key] | None = getattr(terms_of(kind).source, "key_of", None)
    return key if key_of is None or what is None else key_of(what)


def known_as(source: SweepSource, key: Key) -> str | None:
    """The key that people know a row by, if the source has another; None if the row is gone."""
    find: Callable[[Key], Any] | None = getattr(source, "find", None)
    key_of: Callable[[Any], Key] | None = getattr(source, "key_of", None)
    if find is None or key_of is None:
        return None
    try:
        row = find(key)
    except (BadSource, OSError):
        return None
    return None if row is None else str(key_of(row))

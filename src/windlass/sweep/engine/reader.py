"""Reserves the next rows of a range and reads them from the source.

First the source says where the next rows end, then the range is reserved up to there, and only then
the rows are read, so everything that was committed before the reservation is seen. A source that
cannot say where rows end without returning them is read first, and then its rows are reserved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.errors import BadSource
from windlass.source.ask import SourceFailed
from windlass.source.contract import SweepSource, name_of
from windlass.source.key_text import LONGEST_KEY, Key, decoded, encode_key
from windlass.sweep.engine.item import Row
from windlass.sweep.model import terms_of
from windlass.sweep.store import range as ranges

# Text up to this length is short enough for a key, however it is encoded.
SHORT = LONGEST_KEY // 4


@dataclass(frozen=True)
class ReadRequest:
    """A claimed range as its owner knows it, and how many rows it wants."""

    range: int
    batch: int
    worker: int
    end: str | None
    read_to: str | None
    again_to: str | None
    rows_wanted: int
    page_size: int


@dataclass
class Reading:
    """The rows in pages, or that there are none, or that the range has changed."""

    pages: list[Sequence[Row]] = field(default_factory=list)
    read_to: str | None = None
    has_reserved: bool = False
    is_exhausted: bool = False
    again_is_over: bool = False
    is_lost: bool = False
    end: str | None = None


def read_more(database: Database, source: SweepSource, request: ReadRequest) -> Reading:
    """Reserve the next rows of a range and read them."""
    reading = Reading(end=request.end, read_to=request.read_to)
    upto = request.end if request.again_to is None else request.again_to
    after, last = decoded(request.read_to), decoded(upto)
    edge, rows = _find_edge(source, after, last, count=request.rows_wanted)
    if edge is None and request.again_to is not None:
        reading.again_is_over = True
        return reading
    if edge is None and request.end is None:
        reading.is_exhausted = True
        return reading
    wanted = request.end if edge is None else encode_key(edge, what=name_of(source))
    assert wanted is not None
    if not reserve(database, request, wanted, reading=reading):
        return reading
    reading.read_to, reading.has_reserved = wanted, True
    reading.is_exhausted = wanted == request.end
    upto_key = edge if edge is not None else last
    reading.pages = [rows] if rows else _pages(source, after, upto_key, size=request.page_size)
    return reading


def reserve(database: Database, request: ReadRequest, wanted: str, *, reading: Reading) -> bool:
    """Reserve a range up to `wanted`; if that fails, `reading` says how the range has changed."""

    def work(connection: Connection) -> bool:
        return ranges.reserve(
            connection,
            request.range,
            batch=request.batch,
            end=request.end,
            again_to=request.again_to,
            read_to=wanted,
        )

    if database.write_as(request.worker, work, lost=False):
        return True
    found = database.read(lambda connection: ranges.get(connection, request.range))
    if found is None or found.batch != request.batch:
        reading.is_lost = True
        return False
    reading.end = found.end
    # A transaction whose answer was lost may have reserved it.
    return found.end == request.end and found.read_to == wanted


def find_row(kind: Kind, source: SweepSource, key: Key) -> Row | None:
    """The row of one key, after the key as the source has it."""
    terms = terms_of(kind)
    assert terms is not None
    locate: Callable[[Key], Row | None] | None = getattr(source, "locate", None)
    if locate is not None:
        return locate(key)
    find: Callable[[Key], Any] | None = getattr(source, "find", None)
    if find is None:
        if terms.key_only:
            return key, None
        raise BadSource(
            f"{name_of(source)} has no find(key), so it cannot be asked for single rows; give it "
            f"one, or declare {kind.name!r} with key_only=True"
        )
    row = find(key)
    return None if row is None else (key, row)


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

"""Reserving rows of a range and reading them: the one place where a worker meets the source.

First it is asked where the next rows end, then the range is reserved up to there, and only then are
the rows read: whatever is committed before that is seen. A source that cannot tell where rows end
without handing them out is read first, and its rows count once they are reserved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from windlass.database.database import Database
from windlass.errors import BadSource
from windlass.source.ask import SourceFailed
from windlass.source.contract import SweepSource
from windlass.sweep.engine.item import Row
from windlass.sweep.engine.range_runner import Part
from windlass.sweep.store import range as ranges
from windlass.value.key import LONGEST_KEY, Key, decoded, encode_key

# Text that is surely short enough, however it is written.
SHORT = LONGEST_KEY // 4


@dataclass
class Reading:
    """What came of it: rows in pages, or that there are none, or that the range has changed."""

    pages: list[Sequence[Row]] = field(default_factory=list)
    read_to: str | None = None
    has_reserved: bool = False
    is_exhausted: bool = False
    again_is_over: bool = False
    is_lost: bool = False
    end: str | None = None


def name_of(source: SweepSource) -> str:
    """What people know a source by."""
    return str(getattr(source, "name", None) or repr(source))


def read_more(database: Database, source: SweepSource, part: Part) -> Reading:
    """Reserve the next rows of a range, and read them. Nothing of `part` is changed."""
    reading = Reading(end=part.end, read_to=part.read_to)
    upto = part.end if part.again_to is None else part.again_to
    after, last = decoded(part.read_to), decoded(upto)
    edge, rows = _look(source, after, last, part.rows_wanted)
    if edge is None and part.again_to is not None:
        reading.again_is_over = True
        return reading
    if edge is None and part.end is None:
        reading.is_exhausted = True
        return reading
    wanted = part.end if edge is None else encode_key(edge, what=name_of(source))
    assert wanted is not None
    if not _reserve(database, part, wanted, reading):
        return reading
    reading.read_to, reading.has_reserved = wanted, True
    reading.is_exhausted = wanted == part.end
    upto_key = edge if edge is not None else last
    reading.pages = [rows] if rows else _pages(source, after, upto_key, part)
    return reading


def _look(
    source: SweepSource, after: Key | None, upto: Key | None, count: int
) -> tuple[Key | None, Sequence[Row] | None]:
    """Where the next rows end; with the rows, if that cannot be told without them."""
    edge: Any = getattr(source, "edge", None)
    if edge is not None:
        return edge(after, upto, count), None
    rows = _read(source, after, upto, count)
    return (rows[-1][0] if rows else None), rows


def _reserve(database: Database, part: Part, wanted: str, reading: Reading) -> bool:
    def work(connection: Connection) -> bool:
        if not database.dialect.alive(connection, part.worker):
            return False
        return ranges.reserve(
            connection,
            part.range.id,
            batch=part.batch,
            end=part.end,
            again_to=part.again_to,
            read_to=wanted,
        )

    if database.write(work):
        return True
    found = database.read(lambda connection: ranges.look(connection, part.range.id))
    if found is None or found.batch != part.batch:
        reading.is_lost = True
        return False
    reading.end = found.end
    # It may have been reserved by a transaction whose answer was lost.
    return found.end == part.end and found.read_to == wanted


def _pages(
    source: SweepSource, after: Key | None, upto: Key | None, part: Part
) -> list[Sequence[Row]]:
    """All rows up to `upto`, however few of them a page has."""
    pages: list[Sequence[Row]] = []
    while page := _read(source, after, upto, part.terms.batch):
        pages.append(page)
        if page[-1][0] == upto:
            break
        if page[-1][0] == after:
            reason = f"asked for rows after {after!r}, it ended with that row"
            raise SourceFailed(reason) from _bad(source, reason)
        after = page[-1][0]
    return pages


def _read(source: SweepSource, after: Key | None, upto: Key | None, limit: int) -> Sequence[Row]:
    """The next rows. A key that cannot be kept is found here, not when it is to be written down."""
    rows = source.read(after, upto, limit)
    try:
        # Whole numbers can always be kept, and are most keys.
        keys = [key for key, _ in rows if type(key) is not int]
    except (TypeError, ValueError):
        reason = "read() is to return a list of (key, row)"
        raise SourceFailed(reason) from _bad(source, reason)
    for key in keys:
        if not _is_plain(key):
            encode_key(key, what=name_of(source))
    return rows


def _bad(source: SweepSource, reason: str) -> BadSource:
    return BadSource(f"{name_of(source)}: {reason}")


def _is_plain(key: Key) -> bool:
    """Whether one glance shows that it can be kept."""
    return type(key) is str and len(key) <= SHORT and key.isascii() and key.isprintable()

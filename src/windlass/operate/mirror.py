"""Mirror: make the items of a kind equal to the keys of a source.

Both sides are read in byte order of the key, a page at a time, and walked side by side: what only
the source has is added, what only the kind has is removed. The source may change meanwhile, and
triggers or other programs may add and remove items: so what is about to be removed, and what is
about to be added where there were items before, is looked up in the source once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from sqlalchemy import Connection

from windlass.declare.kind import Kind
from windlass.engine.rolling import ADD_AT_ONCE, CHANGE_AT_ONCE, Items
from windlass.errors import BadSource
from windlass.model.rolling import Mirror
from windlass.model.source import Source
from windlass.store import rolling
from windlass.store.database import Database

PAGE = 10_000


def mirror(
    database: Database, items: Items, kind: Kind, source: Source, *, dry_run: bool
) -> Mirror:
    """Add what is new in `source` and remove what is gone; or only count it."""
    if not isinstance(source, Source):
        raise BadSource(
            f"{source!r} is not a source; give a windlass.Table, or an object that has name, "
            "check, keys and present"
        )
    source.check()
    ours = _codes(database, kind.name)
    side = _Side(items, kind, source, dry_run=dry_run)
    theirs = chain.from_iterable(source.keys())
    for is_new, code in _differences(ours, theirs, side):
        (side.add if is_new else side.remove)(code)
    side.flush()
    return Mirror(side.added, side.removed, dry_run)


class _Side:
    """Collects what differs, and changes it a part at a time."""

    def __init__(self, items: Items, kind: Kind, source: Source, *, dry_run: bool) -> None:
        self._items = items
        self._kind = kind
        self._source = source
        self._dry_run = dry_run
        self._new: list[str] = []
        self._gone: list[str] = []
        self.had_items = False
        self.added = 0
        self.removed = 0

    def add(self, code: str) -> None:
        self._new.append(code)
        if len(self._new) == ADD_AT_ONCE:
            self._add_new()

    def remove(self, code: str) -> None:
        self._gone.append(code)
        if len(self._gone) == CHANGE_AT_ONCE:
            self._remove_gone()

    def flush(self) -> None:
        self._add_new()
        self._remove_gone()

    def _add_new(self) -> None:
        new, self._new = self._new, []
        if self.had_items:
            present = self._present(new)
            new = [code for code in new if code in present]
        if new:
            self.added += len(new) if self._dry_run else self._items.add(self._kind, new, now=False)

    def _remove_gone(self) -> None:
        gone, self._gone = self._gone, []
        back = self._present(gone)
        gone = [code for code in gone if code not in back]
        if gone:
            self.removed += len(gone) if self._dry_run else self._items.remove(self._kind, gone)

    def _present(self, codes: list[str]) -> set[str]:
        present: set[str] = set()
        for begin in range(0, len(codes), PAGE):
            present |= self._source.present(codes[begin : begin + PAGE])
        return present


def _codes(database: Database, kind: str) -> Iterator[str]:
    after = ""
    while True:

        def page(connection: Connection, after: str = after) -> rolling.Page:
            return rolling.codes_after(connection, kind, after, limit=PAGE)

        found = database.read(page)
        yield from found.codes
        if found.last is None:
            return
        after = found.last


def _differences(
    ours: Iterator[str], theirs: Iterable[str], side: _Side
) -> Iterator[tuple[bool, str]]:
    """Codes that one of the two has, in order: (True, code) if it is theirs.

    Text compares by code point, which is the byte order of UTF-8.
    """
    mine = next(ours, None)
    side.had_items = mine is not None
    for code in theirs:
        while mine is not None and mine < code:
            yield False, mine
            mine = next(ours, None)
        if mine == code:
            mine = next(ours, None)
        else:
            yield True, code
    while mine is not None:
        yield False, mine
        mine = next(ours, None)

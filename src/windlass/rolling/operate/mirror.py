"""Mirror: make the items of a kind equal to the keys of a source.

Both sides are read in byte order of the key, a page at a time, and walked side by side: what only
the source has is added, what only the kind has is removed. The source may change meanwhile, and
triggers or other programs add and remove items as it does. So whatever was changed is looked up in
the source afterwards, and changed back if the source has changed its mind. A first import is
walked a second time instead, if triggers are there: millions are not asked for one by one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain, groupby

from sqlalchemy import Connection

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.route import ItemRouter
from windlass.core.task.kind import Kind
from windlass.database.database import Database
from windlass.errors import BadKey, BadSource
from windlass.rolling.engine import ADD_AT_ONCE, CHANGE_AT_ONCE
from windlass.rolling.model import Mirror
from windlass.rolling.operate.item import is_followed
from windlass.rolling.store import item as rolling
from windlass.source.contract import MirrorSource
from windlass.value.task import check_key

PAGE = 10_000


def mirror(
    fleet: Fleet, items: ItemRouter, kind: Kind, source: MirrorSource, *, dry_run: bool
) -> Mirror:
    """Add what is new in `source` and remove what is gone; or only count it."""
    if not isinstance(source, MirrorSource):
        raise BadSource(
            f"{source!r} is not a source; give a windlass.Table, or an object that has name, "
            "check, keys and present"
        )
    source.check()
    first = _walk(fleet, items, kind, source, dry_run=dry_run)
    result = Mirror(first.added, first.removed, dry_run)
    if first.had_items or dry_run or not _is_followed(fleet, kind, source):
        return result
    again = _walk(fleet, items, kind, source, dry_run=False)
    return Mirror(result.added + again.added - again.removed, result.removed, dry_run)


def _is_followed(fleet: Fleet, kind: Kind, source: MirrorSource) -> bool:
    # Triggers write into their own database, so apps with several shards have none.
    return fleet.single is not None and is_followed(fleet.single.database, kind, source)


def _walk(
    fleet: Fleet, items: ItemRouter, kind: Kind, source: MirrorSource, *, dry_run: bool
) -> _Side:
    side = _Side(items, kind, source, dry_run=dry_run)
    theirs = _checked(kind, source, chain.from_iterable(source.keys()))
    for is_new, code in _differences(_all_codes(fleet, kind.name), theirs, side):
        (side.add if is_new else side.remove)(code)
    side.flush()
    return side


class _Side:
    """Collects what differs, and changes it a part at a time."""

    def __init__(
        self, items: ItemRouter, kind: Kind, source: MirrorSource, *, dry_run: bool
    ) -> None:
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
        if self._dry_run:
            self.added += len(new)
        elif new:
            self.added += self._items.add(self._kind, new, now=False)
            gone = set(new) - self._present(new) if self.had_items else set()
            if gone:
                self.added -= self._items.remove(self._kind, sorted(gone))

    def _remove_gone(self) -> None:
        gone, self._gone = self._gone, []
        if gone:
            # What came in the meantime is not touched; what comes from now on is put back.
            gone = sorted(set(gone) - self._present(gone))
        if self._dry_run:
            self.removed += len(gone)
        elif gone:
            self.removed += self._items.remove(self._kind, gone)
            back = self._present(gone)
            if back:
                self.removed -= self._items.add(self._kind, sorted(back), now=False)

    def _present(self, codes: list[str]) -> set[str]:
        present: set[str] = set()
        for begin in range(0, len(codes), PAGE):
            present |= self._source.present(codes[begin : begin + PAGE])
        return present


def _checked(kind: Kind, source: MirrorSource, keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        try:
            yield check_key(kind.name, key)
        except BadKey as problem:
            raise BadSource(f"{source.name}: {problem}") from problem


def _all_codes(fleet: Fleet, kind: str) -> Iterator[str]:
    """The codes in all shards, each once, in order; a shard that is down ends it with an error."""
    if fleet.single is not None:
        return _codes(fleet.single.database, kind)
    streams = [_codes(fleet.opened(shard).database, kind) for shard in fleet.shards]
    return (code for code, _ in groupby(heapq.merge(*streams)))


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

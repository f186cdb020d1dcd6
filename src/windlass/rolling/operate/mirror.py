"""Mirror: make the items of a kind equal to the keys of a source.

Both sides are read in byte order of the key, page by page, and compared: what only the source has
is added, what only the kind has is removed. The source may change meanwhile, and triggers or other
programs add and remove items with it. So every change is checked against the source afterwards,
and undone if the source has changed back. A first import does not check millions of keys one by
one: if there are triggers, both sides are compared a second time instead.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain, groupby

from windlass.core.shard.fleet import Fleet
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.errors import BadKey, BadSource
from windlass.rolling.engine import ADD_AT_ONCE, CHANGE_AT_ONCE, ItemRouter
from windlass.rolling.model import Mirror
from windlass.rolling.operate.follow import is_installed
from windlass.rolling.store import item as store
from windlass.source.contract import MirrorSource
from windlass.value.task import check_key

PAGE = 10_000


def mirror(fleet: Fleet, kind: Kind, source: MirrorSource, *, dry_run: bool) -> Mirror:
    """Add what is new in `source` and remove what is gone; or only count it."""
    if not isinstance(source, MirrorSource):
        raise BadSource(
            f"{source!r} is not a source; give a windlass.Table, or an object that has name, "
            "check, keys and present"
        )
    source.check()
    first = _compare(fleet, kind, source, dry_run=dry_run)
    result = Mirror(first.added, first.removed, dry_run)
    if first.had_items or dry_run or not _is_followed(fleet, kind, source):
        return result
    again = _compare(fleet, kind, source, dry_run=False)
    return Mirror(result.added + again.added - again.removed, result.removed, dry_run)


def _is_followed(fleet: Fleet, kind: Kind, source: MirrorSource) -> bool:
    # Triggers write into their own database, so an app with several shards has none.
    single = fleet.single
    return single is not None and is_installed(single.database, source, kind=kind.name)


def _compare(fleet: Fleet, kind: Kind, source: MirrorSource, *, dry_run: bool) -> _Differences:
    differences = _Differences(ItemRouter(fleet), kind, source, dry_run=dry_run)
    ours = _all_codes(fleet, kind.name)
    mine = next(ours, None)
    differences.had_items = mine is not None
    # Text compares by code point, which is the byte order of UTF-8.
    for code in _checked(kind, source, chain.from_iterable(source.keys())):
        while mine is not None and mine < code:
            differences.remove(mine)
            mine = next(ours, None)
        if mine == code:
            mine = next(ours, None)
        else:
            differences.add(code)
    while mine is not None:
        differences.remove(mine)
        mine = next(ours, None)
    differences.flush()
    return differences


class _Differences:
    """Collects what differs, and changes it page by page."""

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
        # Keys that came meanwhile stay; keys that come from now on are put back.
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
    """The codes in all shards, each once, in order; an error if a shard is down."""
    if fleet.single is not None:
        return _codes(fleet.single.database, kind)
    streams = [_codes(fleet.opened(shard).database, kind) for shard in fleet.shards]
    return (code for code, _ in groupby(heapq.merge(*streams)))


def _codes(database: Database, kind: str) -> Iterator[str]:
    after: str | None = ""
    while after is not None:

        def read(connection: Connection, after: str = after) -> store.CodePage:
            return store.codes_after(connection, kind, after, limit=PAGE)

        codes, after = database.read(read)
        yield from codes

"""The source of a kind's items: a mirror makes them equal to its keys, triggers keep them so.

A mirror reads both sides in byte order of the key, page by page, and compares them: what only the
source has is added, what only the kind has is removed. The source may change meanwhile, and
triggers or other programs add and remove items with it. So every change is checked against the
source afterwards, and undone if the source has changed back. A first import does not check millions
of keys one by one: if there are triggers, both sides are compared a second time instead.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby
from typing import TypeVar

from windlass.core.shard.fleet import Fleet
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.database.dialect.base import original
from windlass.errors import BadDatabase, BadKey, BadSource
from windlass.rolling import engine
from windlass.rolling.model import Mirror
from windlass.rolling.store import item as store
from windlass.rolling.store.trigger import TRIGGERS
from windlass.rolling.store.trigger.base import is_within_reach
from windlass.source.contract import MirrorSource
from windlass.source.store.table import Table
from windlass.value.task import check_key, check_priority

T = TypeVar("T")

PAGE = 10_000
CURE = (
    "call add(now=True) and remove from your own code or a message queue, or mirror it now and then"
)
# The error of MySQL and MariaDB when a trigger needs the privilege SUPER.
NOT_TRUSTED = 1419


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
    ours = _all_codes(fleet, kind.name)
    mine = next(ours, None)
    differences = _Differences(fleet, kind, source, dry_run, had_items=mine is not None)
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


@dataclass(eq=False)
class _Differences:
    """Collects what differs, and changes it page by page."""

    fleet: Fleet
    kind: Kind
    source: MirrorSource
    dry_run: bool
    had_items: bool
    new: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    added: int = 0
    removed: int = 0

    def add(self, code: str) -> None:
        self.new.append(code)
        if len(self.new) == engine.ADD_AT_ONCE:
            self._add_new()

    def remove(self, code: str) -> None:
        self.gone.append(code)
        if len(self.gone) == engine.CHANGE_AT_ONCE:
            self._remove_gone()

    def flush(self) -> None:
        self._add_new()
        self._remove_gone()

    def _add_new(self) -> None:
        new, self.new = self.new, []
        if self.dry_run:
            self.added += len(new)
        elif new:
            self.added += engine.add(self.fleet, self.kind, new, now=False)
            gone = set(new) - self._present(new) if self.had_items else set()
            if gone:
                self.added -= engine.remove(self.fleet, self.kind, sorted(gone))

    def _remove_gone(self) -> None:
        gone, self.gone = self.gone, []
        # Keys that came meanwhile stay; keys that come from now on are put back.
        gone = sorted(set(gone) - self._present(gone))
        if self.dry_run:
            self.removed += len(gone)
        elif gone:
            self.removed += engine.remove(self.fleet, self.kind, gone)
            back = self._present(gone)
            if back:
                self.removed -= engine.add(self.fleet, self.kind, sorted(back), now=False)

    def _present(self, codes: list[str]) -> set[str]:
        present: set[str] = set()
        for begin in range(0, len(codes), PAGE):
            present |= self.source.present(codes[begin : begin + PAGE])
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
        read = partial(store.codes_after, kind=kind, after=after, limit=PAGE)
        codes, after = database.read(read)
        yield from codes


def table_of(database: Database, url: str | None, name: str, *, key: str) -> Table:
    """A table in the database at `url`; without a URL, in ours."""
    if url is None:
        return Table(database.url, name, key=key, password=database.password)
    return Table(url, name, key=key)


def install(database: Database, source: MirrorSource, *, kind: str, priority: int) -> None:
    """From now on every change of the keys of `source` changes the items of `kind`.

    Triggers that are there already are replaced. Keys that are there already are not read: mirror
    the table afterwards.
    """
    table = _table(source)
    check_priority(kind, priority)
    if not is_within_reach(database.url, table.url):
        raise BadSource(
            f"{table.name} cannot be followed: a trigger there cannot write into "
            f"{database.name}; {CURE}"
        )
    table.check()

    def work(connection: Connection) -> None:
        TRIGGERS.on(connection).install(connection, table, kind=kind, priority=priority)

    _change(database, table, work)


def uninstall(database: Database, source: MirrorSource, *, kind: str) -> bool:
    """Remove the triggers of `kind` from `source`; False if there were none."""
    table = _table(source)
    if not is_within_reach(database.url, table.url):
        return False

    def work(connection: Connection) -> bool:
        return TRIGGERS.on(connection).uninstall(connection, table, kind=kind)

    return _change(database, table, work)


def is_installed(database: Database, source: MirrorSource, *, kind: str) -> bool:
    """Whether all triggers of `kind` are on `source`."""
    if not isinstance(source, Table) or not is_within_reach(database.url, source.url):
        return False

    def look(connection: Connection) -> bool:
        return TRIGGERS.on(connection).is_installed(connection, source, kind=kind)

    return database.read(look)


def check_shard(database: Database) -> None:
    """BadDatabase if triggers write into `database`: it cannot become one of several shards."""
    if database.read(lambda connection: TRIGGERS.on(connection).are_any(connection)):
        raise BadDatabase(
            f"{database.name} follows tables by triggers, which cannot write into other shards; "
            "first call unfollow for each rolling kind with this database alone, and mirror from "
            "then on"
        )


def _table(source: MirrorSource) -> Table:
    if not isinstance(source, Table):
        raise BadSource(
            f"{source!r} cannot be followed: only a windlass.Table can have triggers; "
            "call add and remove from your own code, or mirror now and then"
        )
    return source


def _change(database: Database, table: Table, work: Callable[[Connection], T]) -> T:
    try:
        return database.write(work)
    except Exception as problem:
        cause = original(problem)
        if cause is problem:
            raise
        if cause.args and cause.args[0] == NOT_TRUSTED:
            raise BadSource(
                f"{table.name} cannot be followed: the server keeps a binary log and lets only "
                "SUPER create triggers; have its administrator run: "
                f"set global log_bin_trust_function_creators = 1; or else {CURE}"
            ) from problem
        line = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
        raise BadSource(f"{table.name} cannot be followed: {line[:300]}; {CURE}") from problem


def only_database(fleet: Fleet, source: MirrorSource) -> Database:
    """The database whose triggers can keep all items; an app with several shards has none."""
    if fleet.single is None:
        name = source.name if isinstance(source, MirrorSource) else repr(source)
        raise BadSource(
            f"{name} cannot be followed: its triggers could only write into their own database, "
            f"and the items of this app are in {len(fleet.shards)} shards; mirror it now and then, "
            "or call add(now=True) and remove from your own code"
        )
    return fleet.single.database

"""Adding, removing and hurrying the items of rolling kinds, millions of them, page by page.

Each page is a transaction of its own. A call that breaks off half-way has done whole pages, and
the same call again does the rest: items that are there stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from types import MappingProxyType

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.route import Target, targets_of
from windlass.core.shard.shard import Shard
from windlass.core.task.enqueue import Guard
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.rolling.store import item as store
from windlass.rolling.store.item import NewItem, NewItems
from windlass.value.bucket import bucket_of
from windlass.value.task import check_key

ADD_AT_ONCE = 20_000
CHANGE_AT_ONCE = 1_000
NOTHING: Mapping[str, int] = MappingProxyType({})


def add(fleet: Fleet, kind: Kind, codes: Iterable[str], *, now: bool) -> int:
    """Add items that are not there yet; how many. `now` makes all of them run at once."""
    if fleet.single is not None:
        return _add_to(fleet.single, kind, codes, now=now)
    added: list[int] = []
    for page in pages(kind.name, codes, size=ADD_AT_ONCE * len(fleet.shards)):
        fleet.keyed(partial(_add, fleet, kind, page, added=added, now=now))
    return sum(added)


def remove(fleet: Fleet, kind: Kind, codes: Iterable[str]) -> int:
    """Remove items; how many were there. An item that is running goes when its run ends."""
    removed = 0
    for page in pages(kind.name, codes, size=CHANGE_AT_ONCE):
        for shard, listed in _possible_shards(fleet, kind, page):
            dialect = shard.database.dialect
            removed += shard.database.write(
                partial(store.remove, dialect=dialect, kind=kind.name, codes=listed)
            )
    return removed


def _add(fleet: Fleet, kind: Kind, codes: list[str], *, added: list[int], now: bool) -> None:
    groups: dict[Target, list[str]] = {}
    roster = fleet.roster
    for code, target in targets_of(fleet, roster, kind.name, codes).items():
        groups.setdefault(target, []).append(code)
    for (shard, is_home), listed in groups.items():
        if is_home:
            guard = fleet.guard(shard, roster.number)
            # This may be repeated after the shards have changed; nothing is counted twice.
            added.append(_add_to(shard, kind, listed, now=now, guard=guard))
        elif now:
            hurry(shard, kind, listed)


def _possible_shards(
    fleet: Fleet, kind: Kind, codes: Sequence[str]
) -> Iterator[tuple[Shard, list[str]]]:
    """Where items may be, earlier homes before the home: items move in that direction."""
    earlier: dict[Shard, list[str]] = {}
    home: dict[Shard, list[str]] = {}
    for code in codes:
        route = fleet.route(kind.name, code)
        home.setdefault(route.home, []).append(code)
        for shard in route.earlier:
            earlier.setdefault(shard, []).append(code)
    yield from earlier.items()
    yield from home.items()


def hurry(
    shard: Shard, kind: Kind, codes: Iterable[str], *, new: Mapping[str, int] = NOTHING
) -> None:
    """Make waiting items of one shard run next, before all others of their kind.

    `new` has the ids under which their caller has just written them: a worker may have visited
    them meanwhile, and once is enough.
    """
    dialect = shard.database.dialect
    for page in pages(kind.name, codes, size=CHANGE_AT_ONCE):

        def work(connection: Connection, page: list[str] = page) -> None:
            until = kind.due_until(shard.clock.now())
            due_at = store.front(connection, dialect, kind.name, until=until)
            ids = [new[code] for code in page if code in new]
            store.hurry(connection, dialect, kind.name, page, due_at=due_at, now=until, new=ids)
            shard.bell.ring_inside(connection, is_ours=True)

        shard.database.write(work)
    shard.bell.ring_here()


def _add_to(
    shard: Shard, kind: Kind, codes: Iterable[str], *, now: bool, guard: Guard | None = None
) -> int:
    added = 0
    # As long as all items are new, it is faster not to check whether they are there.
    fast = store.CAN_COPY.of(shard.database.dialect)
    for page in pages(kind.name, codes, size=ADD_AT_ONCE):
        rows, new, fast = _add_page(shard, kind, page, now=now, fast=fast, guard=guard)
        added += new
        if now:
            hurry(shard, kind, page, new={row.code: row.id for row in rows})
    if added:
        shard.bell.ring_here()
    return added


def _add_page(
    shard: Shard, kind: Kind, codes: list[str], *, now: bool, fast: bool, guard: Guard | None
) -> tuple[Sequence[NewItem], int, bool]:
    """Its rows, how many were new, and whether the next page is likely to be all new, too."""
    dialect, tries = shard.database.dialect, count()
    # With the same numbers, repeating the transaction after a lost answer changes nothing.
    new = None if dialect.numbers_join else _new(shard, kind, codes)

    def work(connection: Connection, *, fast: bool) -> tuple[Sequence[NewItem], int]:
        if guard is not None:
            guard(connection)
        made = new or _new(shard, kind, codes, inside=connection)
        if not now:
            shard.bell.ring_inside(connection, is_ours=True)
        again = next(tries) > 0
        return made.rows, store.add(connection, dialect, made, again=again, fast=fast)

    if fast and new is not None:
        try:
            return *shard.database.write(partial(work, fast=True)), True
        except Exception as problem:
            if not dialect.is_duplicate(problem):
                raise
    rows, added = shard.database.write(partial(work, fast=False))
    return rows, added, store.CAN_COPY.of(dialect) and added == len(codes)


def _new(
    shard: Shard, kind: Kind, codes: list[str], *, inside: Connection | None = None
) -> NewItems:
    numbers = shard.numbers.take(len(codes), inside=inside)
    created_at = shard.clock.reserve(len(codes))
    rows = [
        NewItem(number, code, bucket_of(code), created_at + index)
        for index, (number, code) in enumerate(zip(numbers, codes, strict=True))
    ]
    return NewItems(kind.name, kind.priority, created_at, rows)


def pages(kind: str, codes: Iterable[str], *, size: int) -> Iterator[list[str]]:
    """The codes, checked, in pages, each code once in its page."""
    page: dict[str, None] = {}
    for code in codes:
        page[check_key(kind, code)] = None
        if len(page) == size:
            yield list(page)
            page = {}
    if page:
        yield list(page)

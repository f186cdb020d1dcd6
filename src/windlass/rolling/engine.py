"""Items of rolling kinds: adding and removing millions of them, a part at a time.

Each part is a transaction of its own. A call that breaks off half-way has done whole parts, and
doing it again does the rest: items that are there stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import count

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from windlass.clock import Clock
from windlass.core.task.enqueue import Guard
from windlass.core.task.kind import Kind
from windlass.core.wake.bell import Bell
from windlass.database.database import Database
from windlass.database.number import Numbers
from windlass.rolling.store import item as store
from windlass.rolling.store.insert import INSERTERS, NewItem, NewItems
from windlass.value.bucket import bucket_of
from windlass.value.task import check_key

ADD_AT_ONCE = 20_000
CHANGE_AT_ONCE = 1_000


class Items:
    """Writes items into one database."""

    def __init__(self, database: Database, clock: Clock, numbers: Numbers, bell: Bell) -> None:
        self._database = database
        self._clock = clock
        self._numbers = numbers
        self._bell = bell

    def add(
        self, kind: Kind, codes: Iterable[str], *, now: bool, guard: Guard | None = None
    ) -> int:
        """Add what is not there yet; how many that were. `now` has all of them run at once."""
        added = 0
        # Without a look whether items are there it is faster, as long as none is.
        fast = INSERTERS.of(self._database.dialect).copies
        for part in parts(kind.name, codes, size=ADD_AT_ONCE):
            new, fast = self._add_part(kind, part, now=now, fast=fast, guard=guard)
            added += new
            if now:
                self.hurry(kind, part)
        if added:
            self._bell.ring_here()
        return added

    def remove(self, kind: Kind, codes: Iterable[str]) -> int:
        """Remove items; how many were there. One that runs now goes when its run ends."""
        dialect, removed = self._database.dialect, 0
        for part in parts(kind.name, codes, size=CHANGE_AT_ONCE):
            removed += self._database.write(
                partial(store.remove, dialect=dialect, kind=kind.name, codes=part)
            )
        return removed

    def hurry(self, kind: Kind, codes: Iterable[str]) -> None:
        """Have items that are not due yet run next, before all others of their kind."""
        dialect = self._database.dialect
        for part in parts(kind.name, codes, size=CHANGE_AT_ONCE):

            def work(connection: Connection, part: list[str] = part) -> None:
                until = kind.due_until(self._clock.now())
                due_at = store.front(connection, dialect, kind.name, until=until)
                store.hurry(connection, dialect, kind.name, part, due_at=due_at, now=until)
                self._bell.ring_inside(connection, is_ours=True)

            self._database.write(work)
        self._bell.ring_here()

    def _add_part(
        self, kind: Kind, codes: list[str], *, now: bool, fast: bool, guard: Guard | None
    ) -> tuple[int, bool]:
        """How many were new, and whether none of the next part is likely to be there either."""
        dialect = self._database.dialect
        # Under the same numbers, doing it again after a lost answer has no second effect.
        new = None if dialect.numbers_join else self._new(kind, codes, None)
        if fast and new is not None:
            try:
                return self._write(kind, codes, new, now=now, fast=True, guard=guard), True
            except DBAPIError as problem:
                if not dialect.is_duplicate(problem):
                    raise
        added = self._write(kind, codes, new, now=now, fast=False, guard=guard, again=fast)
        return added, INSERTERS.of(dialect).copies and added == len(codes)

    def _write(
        self,
        kind: Kind,
        codes: list[str],
        new: NewItems | None,
        *,
        now: bool,
        fast: bool,
        guard: Guard | None,
        again: bool = False,
    ) -> int:
        dialect, tries = self._database.dialect, count()

        def work(connection: Connection) -> int:
            if guard is not None:
                guard(connection)
            rows = new or self._new(kind, codes, connection)
            if not now:
                self._bell.ring_inside(connection, is_ours=True)
            is_again = again or next(tries) > 0
            return store.add(connection, dialect, rows, again=is_again, fast=fast)

        return self._database.write(work)

    def _new(self, kind: Kind, codes: list[str], inside: Connection | None) -> NewItems:
        numbers = self._numbers.take(len(codes), inside=inside)
        created_at = self._clock.reserve(len(codes))
        rows = [
            NewItem(number, code, bucket_of(code), created_at + index)
            for index, (number, code) in enumerate(zip(numbers, codes, strict=True))
        ]
        return NewItems(kind.name, kind.priority, created_at, rows)


def parts(kind: str, codes: Iterable[str], *, size: int) -> Iterator[list[str]]:
    """The codes, checked, in parts, each code once in its part."""
    part: dict[str, None] = {}
    for code in codes:
        part[check_key(kind, code)] = None
        if len(part) == size:
            yield list(part)
            part = {}
    if part:
        yield list(part)

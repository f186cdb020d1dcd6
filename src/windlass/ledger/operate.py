"""The ledger as operators see it: its lists and its audit, in the database that they name.

A ledger lives in one database. An app with several databases has a ledger in each; without a name
it is that of the first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from windlass.core.shard.fleet import Fleet
from windlass.database.connection import Connection
from windlass.errors import Unknown
from windlass.ledger.ledger import Ledger
from windlass.ledger.model.hot import HotState
from windlass.ledger.model.ledger import LedgerPlace, Lines
from windlass.ledger.store import hot_view
from windlass.ledger.store import view as ledger_view
from windlass.ledger.store.hot import TABLES
from windlass.view.audit import Audit

P = ParamSpec("P")
T = TypeVar("T")


def _listing(
    query: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate[Ledgers, str | None, P], T]:
    """A method that runs `query` in the database of a shard, once its tables exist."""

    @wraps(query)
    def read(self: Ledgers, shard: str | None, /, *args: P.args, **options: P.kwargs) -> T:
        ledger = self.of(shard)
        ledger.prepare()
        return ledger.database.read(lambda connection: query(connection, *args, **options))

    return read


class Ledgers:
    """The ledgers of an app, one for each of its databases; each is made once."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._made: dict[int, Ledger] = {}
        self._lock = threading.Lock()
        self._auditing = threading.Lock()

    def places(self) -> list[LedgerPlace]:
        """The databases that have a ledger."""
        return [LedgerPlace(str(shard.index), shard.name) for shard in self._fleet.shards]

    def of(self, shard: str | None = None) -> Ledger:
        """The ledger in the database of that number, name or URL, or in the first."""
        place = self._fleet.shards[0] if shard is None else self._fleet.named(shard)
        with self._lock:
            if place.index not in self._made:
                self._made[place.index] = Ledger(place.database, clock=place.clock)
            return self._made[place.index]

    stocks = _listing(ledger_view.list_stocks)
    deductions = _listing(ledger_view.list_deductions)
    returns = _listing(ledger_view.list_returns)
    entries = _listing(ledger_view.list_entries)

    def lanes(self, shard: str | None = None) -> list[HotState]:
        """The hot lanes of a ledger, and what they have."""
        ledger = self.of(shard)
        ledger.prepare()
        ledger.database.schema.need(TABLES, "a hot lane")
        return ledger.database.read(hot_view.hot_states)

    def allot(self, shard: str | None, lane: str, cache: str, *, lines: Lines) -> dict[str, int]:
        """Move stock from the book to the cache of a lane."""
        with self.of(shard).hot(cache, name=lane) as hot:
            return hot.allot(lines)

    def recall(
        self, shard: str | None, lane: str, cache: str | None, *, skus: Iterable[str]
    ) -> dict[str, int]:
        """Move what a lane has not sold back to the book."""
        with self.of(shard).hot(cache or self._known(shard, lane).cache, name=lane) as hot:
            return hot.recall(*skus)

    def recover(self, shard: str | None, lane: str, cache: str) -> int:
        """Begin a new epoch of a lane that exists; returns its number."""
        self._known(shard, lane)
        with self.of(shard).hot(cache, name=lane) as hot:
            return hot.recover()

    def _known(self, shard: str | None, lane: str) -> HotState:
        found = {each.lane: each for each in self.lanes(shard)}
        if lane not in found:
            known = ", ".join(sorted(found)) or "none"
            raise Unknown(f"there is no hot lane {lane!r}; known: {known}")
        return found[lane]

    def audit(self, shard: str | None = None) -> Audit | None:
        """Check every row of a ledger; None if an audit is running: it reads all tables."""
        if not self._auditing.acquire(blocking=False):
            return None
        try:
            return self.of(shard).audit()
        finally:
            self._auditing.release()
